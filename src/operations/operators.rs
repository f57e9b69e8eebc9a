//! `+`, `-`, `*`, `/` and unary `-` on values of a graph, among themselves and with numbers.
//!
//! A number is an f32, and takes the type of the value. With values of f64, `0.1` is the f32 next
//! to 0.1, and [`Graph::constant`](crate::graph::Graph::constant) of an f64 has all its digits.
//!
//! An operator returns no `Result`: types or shapes that do not fit, and a number that integers do
//! not have, are reported when a session takes the graph. [`Output::add`] and its siblings report
//! them at once.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::Binary;
use crate::graph::{GraphError, GraphProblem, NewOperation, OpDef, Output};
use crate::tensor::{DType, Tensor};

impl Output {
    #[track_caller]
    fn operator(&self, function: Binary, other: &Self) -> Self {
        if let Err(error) = self.graph().check_own(function.kind(), other) {
            self.graph().defer(error);
            return self.clone();
        }
        let inputs = &[self.edge(), other.edge()];
        self.graph().add_checked(NewOperation { inputs, ..NewOperation::of(function) })
    }

    /// The number `value` as a scalar of this value's type.
    #[track_caller]
    fn number(&self, function: Binary, value: f32) -> Self {
        let (dtype, value) = (self.tensor_type().dtype, f64::from(value));
        if !has(dtype, value) {
            let problem = GraphProblem::NoSuchNumber { value, dtype };
            self.graph().defer(GraphError::new(function.kind(), problem));
        }
        self.graph().constant(Tensor::scalar_of(dtype, value))
    }
}

/// Whether integers of type `dtype` have `value`, or it is a type of real numbers.
fn has(dtype: DType, value: f64) -> bool {
    match dtype {
        DType::I8 => f64::from(value as i8) == value,
        DType::I32 => f64::from(value as i32) == value,
        DType::I64 => (value as i64) as f64 == value,
        DType::F32 | DType::F64 | DType::BF16 | DType::Bool => true,
    }
}

macro_rules! operators {
    ($($operator:ident $method:ident),*) => {$(
        impl $operator<&Output> for &Output {
            type Output = Output;

            #[track_caller]
            fn $method(self, other: &Output) -> Output {
                self.operator(Binary::$operator, other)
            }
        }

        impl $operator<Output> for &Output {
            type Output = Output;

            #[track_caller]
            fn $method(self, other: Output) -> Output {
                self.operator(Binary::$operator, &other)
            }
        }

        impl $operator<&Output> for Output {
            type Output = Output;

            #[track_caller]
            fn $method(self, other: &Output) -> Output {
                self.operator(Binary::$operator, other)
            }
        }

        impl $operator<Output> for Output {
            type Output = Output;

            #[track_caller]
            fn $method(self, other: Output) -> Output {
                self.operator(Binary::$operator, &other)
            }
        }

        impl $operator<f32> for &Output {
            type Output = Output;

            #[track_caller]
            fn $method(self, other: f32) -> Output {
                self.operator(Binary::$operator, &self.number(Binary::$operator, other))
            }
        }

        impl $operator<f32> for Output {
            type Output = Output;

            #[track_caller]
            fn $method(self, other: f32) -> Output {
                self.operator(Binary::$operator, &self.number(Binary::$operator, other))
            }
        }

        impl $operator<&Output> for f32 {
            type Output = Output;

            #[track_caller]
            fn $method(self, other: &Output) -> Output {
                other.number(Binary::$operator, self).operator(Binary::$operator, other)
            }
        }

        impl $operator<Output> for f32 {
            type Output = Output;

            #[track_caller]
            fn $method(self, other: Output) -> Output {
                other.number(Binary::$operator, self).operator(Binary::$operator, &other)
            }
        }
    )*};
}
operators!(Add add, Sub sub, Mul mul, Div div);

impl Neg for &Output {
    type Output = Output;

    #[track_caller]
    fn neg(self) -> Output {
        self.negate()
    }
}

impl Neg for Output {
    type Output = Self;

    #[track_caller]
    fn neg(self) -> Self {
        self.negate()
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::Graph;
    use crate::tensor::DType;

    #[test]
    fn operators_build_the_operations_of_the_methods_and_take_numbers_on_either_side() {
        let g = Graph::new();
        let (a, b) = (g.constant(2f32), g.constant(3i64));
        let built = [&a + &a, &a - 1.0, 2.0 * &a, a.clone() / &a, -&a, &b * 2.0];
        let kinds = built.map(|value| value.target().name());
        assert_eq!(kinds, ["Add", "Sub", "Mul", "RealDiv", "Neg", "Mul_1"]);
        assert_eq!((&b + 1.0).tensor_type().dtype, DType::I64);
        g.check().unwrap();
    }

    #[test]
    fn a_number_that_integers_do_not_have_is_reported_when_the_graph_is_taken() {
        for dtype in [DType::I32, DType::I64] {
            let g = Graph::new();
            let _half = 0.5 * g.zeros([2]).cast(dtype);
            let error = g.check().unwrap_err().to_string();
            assert!(error.contains(&format!("0.5 is no {dtype}")), "{error}");
        }
    }

    #[test]
    fn an_operator_on_values_that_do_not_fit_is_reported_when_the_graph_is_taken() {
        let g = Graph::new();
        let _sum = g.zeros([2, 3]) + g.zeros([2]);
        let error = g.check().unwrap_err().to_string();
        assert!(error.contains("operators.rs") && error.contains("[2,3]"), "{error}");
        let g = Graph::new();
        let _product = g.zeros([1]) * Graph::new().zeros([1]);
        assert!(g.check().unwrap_err().to_string().contains("another graph"));
    }
}
