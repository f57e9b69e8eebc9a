//! The meaning of SLURM's variables, and every way in which they can be wrong.

use proptest::prelude::*;

use super::*;
use crate::cluster::RunConfig;

fn slurm(rank: u32, tasks: u32, hosts: &str, per_node: &str) -> Slurm {
    Slurm {
        rank: Some(rank.to_string()),
        tasks: Some(tasks.to_string()),
        hosts: Some(hosts.to_owned()),
        tasks_per_node: Some(per_node.to_owned()).filter(|text| !text.is_empty()),
        job: Some("2003".to_owned()),
        host: None,
        place: None,
        names: Names::default(),
    }
}

fn mistakes(slurm: &Slurm, ps: u32) -> String {
    RunConfig::from_slurm(slurm, ps, None).unwrap_err().to_string()
}

#[test]
fn host_lists_are_written_out_with_their_zeros() {
    let hosts = |text| expand_hosts(text).unwrap().join(" ");
    assert_eq!(hosts("n[1-3,7],gpu04"), "n1 n2 n3 n7 gpu04");
    assert_eq!(hosts("n[01-03,10]"), "n01 n02 n03 n10");
    assert_eq!(hosts("n[8-11]-ib"), "n8-ib n9-ib n10-ib n11-ib");
    assert_eq!(hosts("r[1-2]n[1-2]"), "r1n1 r1n2 r2n1 r2n2");
    assert_eq!(hosts("localhost"), "localhost");
    for wrong in [
        "",
        "n[1-3",
        "n1-3]",
        "n[3-1]",
        "n[]",
        "n[a]",
        "n[1,]",
        "a,,b",
        "n[1-4294967295]",
        "n[[1]]",
    ] {
        assert_eq!(expand_hosts(wrong), Err(ConfigProblem::HostList(wrong.to_owned())), "{wrong}");
    }
}

#[test]
fn names_that_no_host_has_are_refused_before_they_are_written_out() {
    let (zeros, letters) = ("0".repeat(60_000), "n".repeat(60_000));
    for wrong in [
        format!("n[{zeros}1-9]"),
        format!("{letters}[1-9]"),
        format!("n[1-9]{letters}"),
        format!("n{}", "[1]".repeat(20_000)),
    ] {
        assert!(expand_hosts(&wrong).is_err(), "{}…", &wrong[..9]);
    }
    assert_eq!(expand_hosts("n[0000000001-0000000002]").unwrap().len(), 2);
}

#[test]
fn repeats_are_written_out() {
    assert_eq!(expand_tasks("2(x3),1"), Ok(vec![2, 2, 2, 1]));
    assert_eq!(expand_tasks("4"), Ok(vec![4]));
    for wrong in ["", "2(x3", "2(3)", "x", "2(x0)", "1,,1", "1(x4294967295)"] {
        assert!(expand_tasks(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn the_first_ranks_are_the_parameter_servers_and_each_rank_has_its_own_port() {
    let config = RunConfig::from_slurm(&slurm(3, 5, "n[1-2],gpu04", "2(x2),1"), 2, None).unwrap();
    assert_eq!(config.task().to_string(), "worker:1");
    assert_eq!(config.chief().unwrap().to_string(), "worker:0");
    let expected = "ClusterSpec({'ps': ['n1:10030', 'n1:10031'], \
                    'worker': ['n2:10030', 'n2:10031', 'gpu04:10030']})";
    assert_eq!(config.cluster_spec().to_string(), expected);
    let config = RunConfig::from_slurm(&slurm(0, 2, "a,b", ""), 1, Some(2222)).unwrap();
    assert_eq!(
        config.cluster_spec().to_string(),
        "ClusterSpec({'ps': ['a:2222'], 'worker': ['b:2222']})"
    );
}

#[test]
fn all_that_is_missing_is_told_at_once() {
    let told = mistakes(&Slurm { rank: Some("0".to_owned()), ..Slurm::default() }, 1);
    for name in [TASKS, HOSTS, TASKS_PER_NODE] {
        assert!(told.contains(&format!("{name}: is not set")), "{told}");
    }
    assert!(!Slurm::default().is_there());
}

#[test]
fn numbers_that_do_not_fit_one_another_are_told() {
    assert!(
        mistakes(&slurm(5, 4, "a,b", "2(x2)"), 1)
            .contains("SLURM_PROCID: is 5, but SLURM_NTASKS is 4")
    );
    assert!(
        mistakes(&slurm(0, 4, "a,b", "4"), 1)
            .contains("is for 1 hosts, but SLURM_STEP_NODELIST has 2")
    );
    assert!(
        mistakes(&slurm(0, 5, "a,b", "2(x2)"), 1).contains("is for 4 ranks, but SLURM_NTASKS is 5")
    );
    assert!(mistakes(&slurm(0, 2, "a,b", ""), 2).contains("no rank is left for a worker"));
    let far =
        RunConfig::from_slurm(&slurm(0, 3, "a", "3"), 1, Some(65535)).unwrap_err().to_string();
    assert!(far.contains("SLURM_STEP_TASKS_PER_NODE: has 3 ranks on one host"), "{far}");
    assert!(far.contains("from 65535 on has 1; start fewer") && far.lines().count() == 1, "{far}");
}

#[test]
fn a_step_comes_before_the_job_it_is_a_part_of() {
    let variables = [
        ("SLURM_PROCID", "1"),
        ("SLURM_JOB_NODELIST", "n[1-9]"),
        ("SLURM_STEP_NODELIST", "n[1-2]"),
    ];
    let slurm = Slurm::from_variables(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    });
    assert_eq!((slurm.rank.as_deref(), slurm.hosts.as_deref()), (Some("1"), Some("n[1-2]")));
    assert_eq!(slurm.tasks, None);
}

#[test]
fn a_mistake_is_told_with_the_variable_that_has_it() {
    let variables = [
        ("SLURM_PROCID", "0"),
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURM_JOB_NODELIST", "a,b"),
        ("SLURM_TASKS_PER_NODE", "2"),
    ];
    let slurm = Slurm::from_variables(|name| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    });
    let told = mistakes(&slurm, 1);
    assert!(
        told.contains("SLURM_TASKS_PER_NODE: is for 1 hosts, but SLURM_JOB_NODELIST has 2"),
        "{told}"
    );
    let told = mistakes(&Slurm { tasks_per_node: Some("1(x2)".to_owned()), ..slurm }, 2);
    assert!(told.contains("SLURM_STEP_NUM_TASKS: is 2: with 2 parameter servers"), "{told}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(hosts in "[-n0-9,\\[\\]]{0,24}", tasks in "[0-9(x),]{0,16}") {
        if let Ok(hosts) = expand_hosts(&hosts) {
            prop_assert!(!hosts.is_empty());
        }
        if let Ok(tasks) = expand_tasks(&tasks) {
            prop_assert!(!tasks.is_empty());
        }
    }
}

#[test]
fn ranks_that_are_not_in_block_order_are_refused_with_the_option_that_puts_them_so() {
    let at = |rank, host: &str, place: &str| {
        let slurm = Slurm {
            host: Some(host.to_owned()),
            place: Some(place.to_owned()),
            ..slurm(rank, 4, "n[1-2]", "2(x2)")
        };
        RunConfig::from_slurm(&slurm, 1, None).map(drop).map_err(|found| found.to_string())
    };
    for (rank, host, place) in [(0, "0", "0"), (1, "0", "1"), (2, "1", "0"), (3, "1", "1")] {
        assert_eq!(at(rank, host, place), Ok(()), "block order");
    }
    let cyclic = at(2, "0", "1").unwrap_err();
    assert!(cyclic.contains("SLURM_NODEID: is 0, but 1 of rank 2"), "{cyclic}");
    assert!(cyclic.contains("`srun --distribution=block`"), "{cyclic}");
}

#[test]
fn consecutive_jobs_on_one_host_have_ports_of_their_own_however_many_ranks_it_has() {
    let ports = |job: u32, ranks: u32| {
        let per_host = ranks.to_string();
        let slurm = Slurm { job: Some(job.to_string()), ..slurm(0, ranks, "n1", &per_host) };
        let config = RunConfig::from_slurm(&slurm, 1, None).unwrap();
        let spec = config.cluster_spec();
        let address = |task| spec.task_address(&task).unwrap().to_owned();
        spec.tasks().map(address).collect::<Vec<_>>()
    };
    for ranks in [3, 12, 64] {
        let (one, next) = (ports(77, ranks), ports(78, ranks));
        assert!(one.iter().all(|port| !next.contains(port)), "{one:?} {next:?}");
    }
    let wrong = Slurm { job: Some("x7".to_owned()), ..slurm(0, 3, "n1", "3") };
    assert!(mistakes(&wrong, 1).contains("SLURM_JOB_ID"), "{}", mistakes(&wrong, 1));
}
