//! References too slow and too plain to be wrong: progressive filling over flows, and a fluid
//! simulation on it.

/// Max-min fair rates of flows with the given routes over links of the given capacities: all rates
/// grow together, and whenever a link is full its flows stop growing.
pub(super) fn fair_rates(capacities: &[f64], routes: &[&[usize]]) -> Vec<f64> {
    let mut rates = vec![0.0; routes.len()];
    let mut growing = vec![true; routes.len()];
    let mut level = 0.0;
    while growing.contains(&true) {
        let shares: Vec<f64> = (0..capacities.len())
            .map(|link| share(capacities, routes, &rates, &growing, link))
            .collect();
        level = shares.iter().copied().fold(f64::INFINITY, f64::min).max(level);
        for flow in 0..routes.len() {
            if growing[flow]
                && routes[flow].iter().any(|link| shares[*link] <= level * (1.0 + 1e-12))
            {
                (growing[flow], rates[flow]) = (false, level);
            }
        }
    }
    rates
}

/// The level at which `link` is full; infinite if no growing flow crosses it.
fn share(
    capacities: &[f64],
    routes: &[&[usize]],
    rates: &[f64],
    growing: &[bool],
    link: usize,
) -> f64 {
    let (mut left, mut count) = (capacities[link], 0);
    for flow in (0..routes.len()).filter(|flow| routes[*flow].contains(&link)) {
        if growing[flow] { count += 1 } else { left -= rates[flow] }
    }
    if count == 0 { f64::INFINITY } else { left.max(0.0) / f64::from(count) }
}

/// A message of the fluid simulation.
pub(super) struct Fluid {
    pub(super) start: f64,
    pub(super) size: f64,
    /// The sender and the receiver.
    pub(super) pair: (usize, usize),
    pub(super) route: Vec<usize>,
    /// When its sender crashes; infinite if it doesn't.
    pub(super) until: f64,
}

/// The time at which each message ends, if all start and end at exact times; infinite if its sender
/// crashes before. Those above `large` are large.
pub(super) fn ends(capacities: &[f64], large: f64, flows: &[Fluid]) -> Vec<f64> {
    let mut left: Vec<f64> = flows.iter().map(|flow| flow.size).collect();
    // A message that crosses no link ends at once.
    let mut ends: Vec<f64> = flows
        .iter()
        .map(|flow| if flow.route.is_empty() { flow.start } else { f64::NAN })
        .collect();
    let mut now = 0.0;
    loop {
        for (flow, end) in flows.iter().zip(&mut ends) {
            if flow.until <= now && (end.is_nan() || *end > flow.until) {
                *end = f64::INFINITY;
            }
        }
        let begun = |flow: &usize| flows[*flow].start <= now && ends[*flow].is_nan();
        let mut waiting: Vec<usize> = (0..flows.len()).filter(begun).collect();
        waiting.sort_by(|a, b| flows[*a].start.total_cmp(&flows[*b].start));
        let active = rates(capacities, large, flows, &waiting);
        let next_start = flows
            .iter()
            .flat_map(|flow| [flow.start, flow.until])
            .filter(|start| *start > now)
            .fold(f64::INFINITY, f64::min);
        let next_end = active
            .iter()
            .map(|(flow, rate)| now + left[*flow] / rate)
            .fold(f64::INFINITY, f64::min);
        let next = next_start.min(next_end);
        if next.is_infinite() {
            return ends;
        }
        for (flow, rate) in active {
            left[flow] -= rate * (next - now);
            if left[flow] <= 1e-7 * rate {
                ends[flow] = next;
            }
        }
        now = next;
    }
}

/// The messages that are sent now, with their rates: of each pair, the first small one, or else the
/// first large one. `waiting` are in the order in which they began.
fn rates(capacities: &[f64], large: f64, flows: &[Fluid], waiting: &[usize]) -> Vec<(usize, f64)> {
    let mut pairs: Vec<(usize, usize)> = waiting.iter().map(|flow| flows[*flow].pair).collect();
    pairs.sort_unstable();
    pairs.dedup();
    let sent = |pair: &(usize, usize)| {
        let own = || waiting.iter().copied().filter(|flow| flows[*flow].pair == *pair);
        own().find(|flow| flows[*flow].size <= large).or_else(|| own().next())
    };
    let sent: Vec<usize> = pairs.iter().filter_map(sent).collect();
    let routes: Vec<&[usize]> = sent.iter().map(|flow| &*flows[*flow].route).collect();
    let rates = fair_rates(capacities, &routes);
    sent.into_iter().zip(rates).collect()
}
