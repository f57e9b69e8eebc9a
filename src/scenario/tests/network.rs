//! Tests of `[network]`: connections, incast, cards of tasks and links of pairs.

use super::*;
use crate::simulation::{ConnectionSpec, LinkSpeed};

#[test]
fn a_network_has_connections_cards_of_tasks_and_links_of_pairs() {
    let text = "[cluster]\nps = 2\nworker = 2\n[network]\nincast = 0.01\nmtu = 1500\n\
                connection = { start = \"2ms\" }\n\
                [network.tasks.ps]\nbandwidth = \"20Gbps\"\n\
                [network.tasks.\"ps:1\"]\nlatency = \"30us\"\n\
                [[network.link]]\nbetween = [\"worker:1\", \"ps\"]\nbandwidth = \"1Gbps\"";
    let network = example(text).unwrap().hardware.network;
    let bandwidth = Some(BytesPerSecond(2.5e9));
    let late = Some(Duration::from_micros(30));
    let cards = [(0, None), (1, late)].map(|(ps, latency)| (ps, LinkSpeed { latency, bandwidth }));
    assert_eq!(network.cards, cards.into());
    let own = LinkSpeed { latency: None, bandwidth: Some(BytesPerSecond(1.25e8)) };
    assert_eq!(network.links, [(0, 3), (1, 3), (3, 0), (3, 1)].map(|pair| (pair, own)).into());
    let start = Duration::from_millis(2);
    assert_eq!(network.connection, ConnectionSpec { start, ..ConnectionSpec::default() });
    assert_eq!((network.incast, network.mtu), (0.01, Some(1500)));
}

#[test]
fn a_mistake_in_a_network_is_told_with_its_line() {
    let on_one_host = "[cluster]\nps = 1\nworker = 1\n[hosts]\ncores = 2\ntasks_per_host = 2\n\
                       [network.tasks.ps]\nbandwidth = \"20Gbps\"";
    for (text, expected) in [
        ("[network]\nincast = -1", "2: network.incast: -1 must be finite and at least 0"),
        ("[network]\nmtu = 576", "2: network.mtu: 576 must be at least 1280"),
        (
            "[[network.link]]\nbetween = [\"ps:0\", \"worker:9\"]",
            "2: network.link[0].between: the job `worker` has 2 tasks, counted from 0; \
             `--unset` removes a key",
        ),
        (
            on_one_host,
            "7: network.tasks: ps:0 and worker:0 share a host and its card; give both the same",
        ),
    ] {
        assert_eq!(example(text).unwrap_err().to_string(), format!("sims/example.toml:{expected}"));
    }
}

#[test]
fn links_of_more_pairs_than_can_be_kept_are_refused() {
    let of_jobs = |tasks: u32| {
        let link = "[[network.link]]\nbetween = [\"worker\", \"ps\"]\n";
        example(&format!("[cluster]\nps = {tasks}\nworker = {tasks}\n{link}{link}"))
    };
    assert_eq!(of_jobs(100).unwrap().hardware.network.links.len(), 2 * 100 * 100);
    let said = of_jobs(20_000).unwrap_err().to_string();
    let expected = "5: network.link[0].between: with the links before it, these are 400000000 \
                    pairs of tasks, and at most 4000000 can have their own";
    assert!(said.starts_with(&format!("sims/example.toml:{expected}")), "{said}");
}
