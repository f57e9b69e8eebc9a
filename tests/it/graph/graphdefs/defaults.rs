//! Inputs with a default: which values may be fed in its place. (What they give is held to
//! TensorFlow by the case `defaults` of the group `array`.)

use std::fs;

use trainyard::import;
use trainyard::prelude::*;

use super::file;
use crate::support::fixture::on_actix;

#[test]
fn a_value_that_does_not_fit_the_declared_shape_is_not_fed_in_place_of_a_default() {
    on_actix(async {
        let g = Graph::new();
        let imported = import::graph_def(&g, &fs::read(file("array.pb")).unwrap())?;
        let declared = [("x", "f32[?,3]"), ("sizes", "i32[?]"), ("given", "f32[?,?]")];
        for (name, declared) in declared {
            let input = imported.output(&format!("defaults/{name}"))?;
            assert_eq!(input.tensor_type().to_string(), declared, "{name}");
        }
        let x = imported.output("defaults/x")?;
        let server = Server::create_local();
        let session = Session::new(&server.target(), &g).await?;
        for shape in [&[2, 4][..], &[3], &[1, 2, 3]] {
            let run = session.run().feed(&x, Tensor::full(shape, 1f32)).fetch(&x);
            let error = run.await.unwrap_err().to_string();
            assert!(error.contains("where f32[?,3] is needed"), "{error}");
            assert!(error.contains("defaults/x"), "{error}");
        }
        let wrong = session.run().feed(&x, Tensor::full([2, 3], 1i32)).fetch(&x);
        assert!(wrong.await.is_err(), "of another type");
        Ok(())
    });
}
