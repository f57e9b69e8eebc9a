//! What goes wrong, and what becomes of the training.

mod crashes;
mod ends;
mod fault_matrix;
mod losses;

mod once;
mod own_values;
mod recovery;
mod stall;
mod stalled_store;
mod stops;
