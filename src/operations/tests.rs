//! Operations in messages.

use std::sync::Arc;

use super::*;
use crate::graph::{
    Attribute, Axes, Mirror, Padding, RandomLaw, Reduction, ShardStrategy, Sharding, Sliding,
    Subscript,
};
use crate::tensor::{DType, PartialShape};
use crate::transport::wire::{decode, encode};

fn encoded(op: &Defined) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(op, &mut bytes).unwrap();
    bytes
}

/// Tensors travel beside the messages that hold them.
fn has_a_tensor(op: &Defined) -> bool {
    op.listed().iter().any(|(_, value)| matches!(value, Attribute::Tensor(_)))
}

#[test]
fn an_operation_of_the_library_comes_back_from_a_message_as_it_was() {
    let padding = Padding::Explicit([[1, 0], [2, 300]]);
    let sliding = Sliding { strides: [2, 1], dilations: [1, 3], padding };
    let convolution = Convolution { sliding, channels: Channels::Each };
    let axes: Axes = [0, 2].into_iter().collect();
    let table = Arc::from("table");
    let with_attributes: [Defined; 13] = [
        Unary::LeakyRelu(0.3).into(),
        UnaryGrad(Unary::Gelu { approximate: true }).into(),
        Cast(DType::BF16).into(),
        ReduceGrad(Reduce { reduction: Reduction::Max, axes, keep_dims: true }).into(),
        Norm::BatchInference { epsilon: 0.001 }.into(),
        Norm::Dropout { rate: 0.5, seeds: (u64::MAX, 7) }.into(),
        Random {
            law: RandomLaw::Normal { mean: -1.0, deviation: 2.0 },
            shape: [3, 4].into(),
            seeds: (7, 1 << 63),
            offset: 12,
        }
        .into(),
        Window::InputGradient(convolution, Some([28, 28])).into(),
        Window::AvgPool(Pool { size: [3, 2], sliding: Padding::Same.into() }).into(),
        Array::Reshape(PartialShape::new(&[None, Some(3)])).into(),
        Array::Slice { begin: vec![1, 0], size: vec![None, Some(2)] }.into(),
        Array::StridedSlice(vec![
            Subscript::At(-1),
            Subscript::NewAxis,
            Subscript::Every { begin: None, end: Some(-2), stride: -3 },
        ])
        .into(),
        Sparse::ShardIds(Sharding { table, rows: 9, shards: 2, strategy: ShardStrategy::Mod })
            .into(),
    ];
    for op in built_in().iter().filter(|op| !has_a_tensor(op)).chain(&with_attributes) {
        let back: Defined = decode(&encoded(op)).unwrap();
        assert_eq!(back, *op);
        assert_eq!(format!("{back:?}"), format!("{op:?}"));
    }
}

#[test]
fn an_operation_of_the_library_is_its_number_and_the_values_of_its_attributes() {
    assert_eq!(encoded(&Unary::Relu.into()).len(), 1);
    let product = Product::MatMul { transpose_a: true, transpose_b: false };
    assert_eq!(encoded(&product.into())[1..], [1, 0]);
}

#[test]
fn a_message_with_attributes_that_no_operation_has_is_refused() {
    let mirrored = Array::MirrorPad { paddings: vec![(1, 2)], mirror: Mirror::Reflect };
    let mut bytes = encoded(&mirrored.into());
    assert_eq!(bytes[1..], [2, 2, 4, 0], "two integers, written zigzag, and a flag");
    bytes[2] = 1;
    let error = decode::<Defined>(&bytes).unwrap_err().to_string();
    assert!(error.contains("the attributes of an operation `MirrorPad`"), "{error}");
    let none = u8::try_from(built_in().len() + 1).unwrap();
    assert!(decode::<Defined>(&[none]).unwrap_err().to_string().contains("operation number"));
}
