//! Words of other systems for what a scenario has under another name.

/// Words, in lower case, and what to write instead: a name, where the same place has it; or else
/// the path of a key.
const WORDS: [(&str, &str); 86] = [
    ("accuracy", "stop.accuracy"),
    ("adam_w", "adamw"),
    ("all_reduce", "program.all_reduce"),
    ("allreduce", "program.all_reduce"),
    ("architecture", "model"),
    ("asp", "async"),
    ("backup_workers", "backups"),
    ("bandwidth", "network.bandwidth"),
    ("batch", "program.batch"),
    ("batch_size", "batch"),
    ("beta_1", "program.optimizer.beta1"),
    ("beta_2", "program.optimizer.beta2"),
    ("bsp", "sync"),
    ("bw", "network.bandwidth"),
    ("checkpoint_dir", "checkpoint.directory"),
    ("clip_global_norm", "program.optimizer.clip_global_norm"),
    ("clip_norm", "program.optimizer.clip_norm"),
    ("clip_value", "program.optimizer.clip_value"),
    ("compression", "run.0.compression"),
    ("dataset", "program.dataset"),
    ("dc_asgd", "delay_compensated"),
    ("downpour", "async"),
    ("easgd", "elastic_averaging"),
    ("epochs", "stop.epochs"),
    ("eps", "program.optimizer.epsilon"),
    ("fedavg", "local_sgd"),
    ("flops", "rate"),
    ("gbps", "network.bandwidth"),
    ("gd", "gradient_descent"),
    ("gradient_clip", "program.optimizer.clip_global_norm"),
    ("hidden", "program.hidden"),
    ("hidden_layers", "hidden"),
    ("hidden_units", "hidden"),
    ("hogwild", "async"),
    ("initial_learning_rate", "program.optimizer.learning_rate"),
    ("latency", "network.latency"),
    ("layers", "hidden"),
    ("learning_rate", "program.optimizer.learning_rate"),
    ("lr", "program.optimizer.learning_rate"),
    ("max_epochs", "stop.epochs"),
    ("max_steps", "stop.steps"),
    ("minibatch", "batch"),
    ("mode", "run.0.mode"),
    ("model", "program.model"),
    ("momentum", "program.optimizer.momentum"),
    ("nesterov", "program.optimizer.use_nesterov"),
    ("num_epochs", "stop.epochs"),
    ("num_parameter_server", "cluster.ps"),
    ("num_parameter_servers", "cluster.ps"),
    ("num_ps", "cluster.ps"),
    ("num_samples", "stop.samples"),
    ("num_steps", "stop.steps"),
    ("num_workers", "cluster.worker"),
    ("opt", "optimizer"),
    ("optimizer", "program.optimizer"),
    ("parameter_server", "ps"),
    ("parameter_servers", "ps"),
    ("per_worker_batch", "batch"),
    ("ps", "cluster.ps"),
    ("ps_tasks", "cluster.ps"),
    ("random_seed", "seed"),
    ("ring_all_reduce", "program.all_reduce"),
    ("rmsprop", "rms_prop"),
    ("rtt", "latency"),
    ("samples", "stop.samples"),
    ("seconds", "stop.time"),
    ("sgd", "gradient_descent"),
    ("speed", "rate"),
    ("ssp", "bounded_staleness"),
    ("stale_synchronous", "bounded_staleness"),
    ("steps", "stop.steps"),
    ("straggler", "compute.straggler"),
    ("stragglers", "straggler"),
    ("strategy", "mode"),
    ("synchronous", "sync"),
    ("target_accuracy", "stop.accuracy"),
    ("time", "stop.time"),
    ("time_limit", "stop.time"),
    ("total_steps", "stop.steps"),
    ("train_dir", "checkpoint.directory"),
    ("train_steps", "stop.steps"),
    ("trainer", "worker"),
    ("units", "hidden"),
    ("weight_decay", "program.optimizer.weight_decay"),
    ("worker", "cluster.worker"),
    ("workers", "cluster.worker"),
];

/// What to write for the word `found` in a place that has `names`.
pub(super) fn meant(found: &str, names: &[&str]) -> Option<&'static str> {
    let found = found.to_lowercase().replace('-', "_");
    let mut meanings = WORDS.iter().filter(|(word, _)| *word == found).map(|(_, meant)| *meant);
    meanings.find(|meant| meant.contains('.') || names.contains(meant))
}

/// The same for a word with one slip of the finger.
pub(super) fn nearly_meant(found: &str, names: &[&str]) -> Option<&'static str> {
    let found = found.to_lowercase();
    let is_near = |word: &str| word.len() > 2 && strsim::damerau_levenshtein(word, &found) == 1;
    WORDS.iter().filter(|(word, _)| is_near(word)).find_map(|(word, _)| meant(word, names))
}

/// The path of the key that `word` means where there is no place to go by: of `batch-size`,
/// `program.batch`.
pub(crate) fn key_of(word: &str) -> Option<&'static str> {
    let found = meant(word, &[]);
    // A word of others may stand for one of ours, which stands for a path.
    let ours = || WORDS.iter().find(|(other, _)| *other == word.replace('-', "_"));
    found.or_else(|| meant(ours()?.1, &[]))
}
