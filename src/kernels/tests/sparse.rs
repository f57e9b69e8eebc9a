//! Rows found by their number, against the plainest way to say the same.

use std::sync::Arc;

use proptest::prelude::*;

use super::{LENGTHS, bits, values};
use crate::graph::{ShardStrategy, Sharding};
use crate::kernels::sparse::{NoSuchRow, segment_sum, shard_ids, stitch, unique};

proptest! {
    #[test]
    fn unique_values_come_in_the_order_in_which_they_first_occur(
        x in prop::collection::vec(prop_oneof![-4i64..4, any::<i64>(), Just(i64::MIN)], 0..100)
    ) {
        let (values, index) = unique(&x);
        let mut expected: Vec<i64> = Vec::new();
        x.iter().for_each(|x| if !expected.contains(x) { expected.push(*x) });
        prop_assert_eq!(&values, &expected);
        let found: Vec<i64> = index.iter().map(|i| values[*i as usize]).collect();
        prop_assert_eq!(found, x);
    }

    #[test]
    fn the_shards_parts_of_a_list_are_together_the_list(
        drawn in prop::collection::vec(0usize..1000, 0..60),
        rows in 1usize..50,
        shards in 1usize..8,
        modulo: bool,
    ) {
        let strategy = if modulo { ShardStrategy::Mod } else { ShardStrategy::Div };
        let sharding = Sharding { table: Arc::from("t"), rows, shards: shards.min(rows), strategy };
        let ids: Vec<i32> = drawn.iter().map(|id| (id % rows) as i32).collect();
        let parts = shard_ids(&ids, &sharding, |row| row as i32).unwrap();
        let mut seen = vec![None; ids.len()];
        for (shard, part) in parts.iter().enumerate() {
            prop_assert!(part.positions.is_sorted());
            for (row, position) in part.ids.iter().zip(&part.positions) {
                let place = seen[*position as usize].replace((shard, *row as usize));
                prop_assert!(place.is_none());
            }
        }
        let expected: Vec<_> = ids.iter().map(|id| sharding.locate(i64::from(*id))).collect();
        prop_assert_eq!(seen, expected);
    }
}

#[test]
fn an_id_that_is_no_row_is_named_with_the_table_and_its_size() {
    let sharding =
        Sharding { table: Arc::from("t"), rows: 5, shards: 2, strategy: ShardStrategy::Div };
    for id in [-1i64, 5, i64::MAX] {
        let error = shard_ids(&[0, id], &sharding, |row| row as i64).unwrap_err();
        assert_eq!(error, NoSuchRow { table: "t".to_owned(), id, rows: 5 });
    }
}

#[test]
fn sums_of_rows_are_those_of_a_plain_loop_to_the_last_bit() {
    for width in LENGTHS {
        let positions: Vec<usize> = (0..23).map(|i| (i * i * 5) % 7).collect();
        let x = values(width as u64, positions.len() * width);
        let mut expected = vec![0f32; 8 * width];
        for (row, position) in positions.iter().enumerate() {
            (0..width).for_each(|c| expected[position * width + c] += x[row * width + c]);
        }
        let mut found = vec![f32::NAN; 8 * width];
        segment_sum(&x, &positions, width, &mut found);
        assert_eq!(bits(&found), bits(&expected), "width {width}");
    }
}

#[test]
fn stitched_rows_are_where_their_positions_say() {
    for width in LENGTHS {
        let (evens, odds): (Vec<usize>, Vec<usize>) =
            (0..9).rev().partition(|position| position % 2 == 0);
        let x = values(3, 9 * width);
        let rows = |positions: &[usize]| -> Vec<f32> {
            positions.iter().flat_map(|position| &x[position * width..][..width]).copied().collect()
        };
        let mut found = vec![f32::NAN; x.len()];
        stitch(&evens, &rows(&evens), width, &mut found);
        stitch(&odds, &rows(&odds), width, &mut found);
        assert_eq!(bits(&found), bits(&x));
    }
}
