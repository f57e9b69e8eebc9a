//! The cases of `device_name_utils_test.cc` and `device_spec_test.py`, and properties of the
//! algebra.

use super::*;
use crate::cluster::JobNameError;
use proptest::option;
use proptest::prelude::*;

fn spec(text: &str) -> DeviceSpec {
    text.parse().unwrap()
}

fn problem(text: &str) -> DeviceNameProblem {
    text.parse::<DeviceSpec>().unwrap_err().problem
}

#[test]
fn every_spelling_of_a_name_prints_as_one() {
    for (text, canonical) in [
        ("", ""),
        ("/", ""),
        ("/job:*/replica:4/gpu:*", "/replica:4/device:GPU:*"),
        ("/device:CPU:0/task:3/job:worker", "/job:worker/task:3/device:CPU:0"),
        ("/job:foo_bar/replica:0/task:0/Cpu:0", "/job:foo_bar/replica:0/task:0/device:CPU:0"),
        ("/device:GPU", "/device:GPU:*"),
        ("/device:xla_gpu:2", "/device:XLA_GPU:2"),
        ("/device:*:3", "/device:*:3"),
        ("/job:*/replica:*/task:*/device:*:*", ""),
    ] {
        assert_eq!(spec(text).to_string(), canonical, "{text}");
    }
}

#[test]
fn each_mistake_in_a_name_has_its_own_error() {
    use DeviceNameProblem::{Index, Job, NoSlash, Repeated, TwoTypes, Type, UnknownPart};
    assert_eq!(problem("job:a"), NoSlash);
    assert_eq!(problem("/job:a/job:b"), Repeated("job"));
    assert_eq!(problem("/replica:*/replica:0"), Repeated("replica"));
    assert_eq!(problem("/task:0/task:0"), Repeated("task"));
    assert_eq!(problem("/cpu:0/device:GPU:0"), TwoTypes);
    assert_eq!(
        problem("/job:123/replica:1/task:2/gpu:0"),
        Job(JobNameError::Grammar("123".into()))
    );
    assert_eq!(problem("/job:my-job"), Job(JobNameError::Hyphen("my-job".into())));
    assert_eq!(problem("/job:a/extra"), UnknownPart("extra".into()));
    assert_eq!(problem("/job:a/"), UnknownPart(String::new()));
    assert_eq!(problem("/foo:bar"), UnknownPart("foo:bar".into()));
    assert_eq!(problem("/cpu"), UnknownPart("cpu".into()));
    assert_eq!(problem("/replica:-1"), Index("-1".into()));
    assert_eq!(problem("/task:4294967296"), Index("4294967296".into()));
    assert_eq!(problem("/task:"), Index(String::new()));
    assert_eq!(problem("/cpu:0:1"), Index("0:1".into()));
    assert_eq!(problem("/device:3D:0"), Type("3D".into()));
}

#[test]
fn inner_parts_win_over_outer_ones() {
    let merged = |outer, inner| spec(outer).merged(&spec(inner)).to_string();
    assert_eq!(merged("/job:ps/task:1/cpu:0", "/job:worker"), "/job:worker/task:1/device:CPU:0");
    assert_eq!(merged("/job:ps", "/task:2/cpu:0"), "/job:ps/task:2/device:CPU:0");
    assert_eq!(merged("/gpu:1", "/gpu:*"), "/device:GPU:1");
    assert_eq!(merged("/gpu:1", "/gpu:0"), "/device:GPU:0");
}

#[test]
fn a_device_index_is_not_inherited_by_another_type() {
    assert_eq!(spec("/gpu:1").merged(&spec("/cpu:*")), spec("/cpu:*"));
}

#[test]
fn unifying_joins_what_is_asked_and_names_both_sides_of_a_conflict() {
    let unified = spec("/job:ps/cpu:*").unify(&spec("/task:1/device:CPU:0")).unwrap();
    assert_eq!(unified, spec("/job:ps/task:1/cpu:0"));
    for (left, right, parts) in [
        ("/job:ps", "/job:worker", "jobs"),
        ("/replica:0", "/replica:1", "replicas"),
        ("/task:0", "/task:1", "tasks"),
        ("/cpu:0", "/gpu:0", "types"),
        ("/cpu:0", "/cpu:1", "indices"),
    ] {
        let conflict = spec(left).unify(&spec(right)).unwrap_err();
        let (left, right) = (spec(left), spec(right));
        let message =
            format!("Cannot merge devices with incompatible {parts}: '{left}' and '{right}'");
        assert_eq!(conflict.to_string(), message);
    }
}

#[test]
fn a_filter_lets_through_the_devices_that_have_all_its_parts() {
    let device = DeviceName::cpu(TaskName::new("worker", 3), 0);
    for filter in ["", "/job:worker", "/job:worker/task:3", "/replica:0", "/cpu:*", "/device:*:0"] {
        assert!(spec(filter).matches(&device), "{filter}");
    }
    for filter in ["/job:ps", "/job:worker/task:2", "/replica:1", "/gpu:*", "/cpu:1"] {
        assert!(!spec(filter).matches(&device), "{filter}");
    }
    assert!(DeviceSpec::of_task(device.task()).matches(&device));
}

fn any_spec() -> impl Strategy<Value = DeviceSpec> {
    let job = option::of("[a-c]");
    let device_type = option::of(prop_oneof![Just("CPU"), Just("GPU"), Just("TPU_V2")]);
    (job, option::of(0..3u32), option::of(0..3u32), device_type, option::of(0..3u32)).prop_map(
        |(job, replica, task, device_type, device_index)| DeviceSpec {
            job: job.map(Into::into),
            replica,
            task,
            device_type: device_type.map(Into::into),
            device_index,
        },
    )
}

proptest! {
    #[test]
    fn a_printed_spec_parses_back(spec in any_spec()) {
        prop_assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
    }

    #[test]
    fn any_text_is_parsed_or_refused(text in "(/|job|task|device|cpu|:|\\*|[0-9]|\\PC){0,12}") {
        if let Ok(spec) = text.parse::<DeviceSpec>() {
            prop_assert_eq!(spec.to_string().parse::<DeviceSpec>().unwrap(), spec);
        }
    }

    #[test]
    fn unifying_is_symmetric_and_agrees_with_merging(left in any_spec(), right in any_spec()) {
        match (left.unify(&right), right.unify(&left)) {
            (Ok(one), Ok(other)) => {
                prop_assert_eq!(&one, &other);
                prop_assert_eq!(&one, &left.merged(&right));
            }
            (one, other) => prop_assert!(one.is_err() && other.is_err()),
        }
    }

    #[test]
    fn a_device_matches_a_unified_spec_just_when_it_matches_both(
        left in any_spec(), right in any_spec(), job in "[a-c]", task in 0..3u32, index in 0..3u32
    ) {
        let device = DeviceName::cpu(TaskName::new(job, task), index);
        let both = left.matches(&device) && right.matches(&device);
        prop_assert_eq!(left.unify(&right).is_ok_and(|spec| spec.matches(&device)), both);
    }
}
