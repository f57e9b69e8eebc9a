//! Chains of elementwise operations against the same operations one by one.

use proptest::prelude::*;

use super::{bits, values};
use crate::graph::Op;
use crate::operations::{Binary, Cast, ChainOp, Rows, Unary, UnaryGrad, call, follows, run_chain};
use crate::tensor::{DType, Tensor};

/// The form of the other input of an operation in a chain.
#[derive(Clone, Copy, Debug)]
enum Other {
    None,
    Alike,
    Scalar,
    Row,
}

fn link() -> impl Strategy<Value = (Op, usize, Other)> {
    let unary =
        prop_oneof![Just(Unary::Relu), Just(Unary::Tanh), Just(Unary::Neg), Just(Unary::Softplus)];
    let binary =
        prop_oneof![Just(Binary::Add), Just(Binary::Sub), Just(Binary::Mul), Just(Binary::Maximum)];
    prop_oneof![
        unary.clone().prop_map(|op| (Op::from(op), 0, Other::None)),
        (prop_oneof![Just(Unary::Relu), Just(Unary::Tanh)], 0..2usize).prop_map(|(op, at)| (
            Op::from(UnaryGrad(op)),
            at,
            Other::Alike
        )),
        (binary, 0..2usize, prop_oneof![Just(Other::Alike), Just(Other::Scalar)])
            .prop_map(|(op, at, other)| (Op::from(op), at, other)),
        Just((Op::from(Rows::BiasAdd), 0, Other::Row)),
    ]
}

fn tensor(shape: &[usize], seed: u64) -> Tensor {
    Tensor::new(shape, &values(seed, shape.iter().product())).unwrap()
}

proptest! {
    #[test]
    fn a_chain_gives_bit_for_bit_what_its_operations_give_one_by_one(
        chain in prop::collection::vec(link(), 1..6),
        rows in 0..90usize,
        columns in 1..80usize,
        seed: u64,
        is_shared: bool,
    ) {
        let others: Vec<Option<Tensor>> = chain
            .iter()
            .zip(seed..)
            .map(|((_, _, other), seed)| match other {
                Other::None => None,
                Other::Alike => Some(tensor(&[rows, columns], seed)),
                Other::Scalar => Some(tensor(&[], seed)),
                Other::Row => Some(tensor(&[columns], seed)),
            })
            .collect();
        let x = tensor(&[rows, columns], seed.wrapping_sub(1));
        let mut wanted = x.clone();
        for ((op, at, _), other) in chain.iter().zip(&others) {
            let mut inputs: Vec<&Tensor> = other.iter().collect();
            inputs.insert(*at, &wanted);
            let types: Vec<_> = inputs.iter().map(|input| (input.dtype(), input.shape())).collect();
            prop_assert!(follows(op, *at, &types, (DType::F32, x.shape())));
            let output = call(op, &inputs).unwrap().remove(0);
            wanted = output;
        }
        let links: Vec<ChainOp<'_>> = chain
            .iter()
            .zip(&others)
            .map(|((op, at, _), other)| ChainOp { op, at: *at, other: other.as_ref() })
            .collect();
        let before = bits(x.slice());
        let keep = is_shared.then(|| x.clone());
        let found = run_chain(x, &links);
        prop_assert_eq!(bits(found.slice()), bits(wanted.slice()));
        prop_assert_eq!(found.shape(), wanted.shape());
        if let Some(keep) = keep {
            prop_assert_eq!(
                bits(keep.slice()),
                before,
                "what somebody else holds is not written to"
            );
        }
    }
}

#[test]
fn a_chain_of_many_blocks_is_the_same_on_any_number_of_threads() {
    let x = tensor(&[700, 500], 3);
    let bias = tensor(&[500], 4);
    let (add, relu) = (Op::from(Rows::BiasAdd), Op::from(Unary::Relu));
    let links = || {
        [ChainOp { op: &add, at: 0, other: Some(&bias) }, ChainOp { op: &relu, at: 0, other: None }]
    };
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| bits(run_chain(x.clone(), &links()).slice()))
    };
    let biased = call(&Op::from(Rows::BiasAdd), &[&x, &bias]).unwrap().remove(0);
    let wanted = bits(call(&Op::from(Unary::Relu), &[&biased]).unwrap().remove(0).slice());
    assert_eq!(with(1), wanted);
    assert_eq!(with(3), wanted);
}

#[test]
fn what_broadcasts_or_changes_the_type_is_no_part_of_a_chain() {
    let of = |shape: &[usize]| (DType::F32, tensor(shape, 0).shape());
    let add = Op::from(Binary::Add);
    assert!(follows(&add, 0, &[of(&[4, 3]), of(&[4, 3])], of(&[4, 3])));
    assert!(!follows(&add, 0, &[of(&[4, 3]), of(&[3])], of(&[4, 3])));
    assert!(!follows(&add, 0, &[of(&[3]), of(&[4, 3])], of(&[4, 3])));
    assert!(!follows(&Op::from(Cast(DType::F64)), 0, &[of(&[3])], (DType::F64, of(&[3]).1)));
    assert!(!follows(&Op::from(Rows::BiasAdd), 0, &[of(&[2, 5000]), of(&[5000])], of(&[2, 5000])));
}
