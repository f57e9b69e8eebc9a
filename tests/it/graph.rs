//! Graphs: operations, gradients, optimizers, models and TensorFlow's own files.

mod all_reduce;
mod control_flow;
mod control_inputs;
mod convnet;
mod devices;
mod embeddings;
mod flows;
mod gpus;
mod gradients;
mod graphdefs;
mod normalisation;
mod optimizers;
mod shapes;
