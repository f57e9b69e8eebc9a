//! The files in `sims/deploy/`: their command lines run, with the variables that Kubernetes'
//! training operator and `srun` set, as far as that goes without Kubernetes and SLURM.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::binary::{Running, Said, folder, free_address, trainyard_in};

fn file(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("sims/deploy").join(name))
        .unwrap()
}

/// The commands of a script or a comment that begin with `program`, a line each, without comment
/// signs.
fn commands(text: &str, program: &str) -> Vec<Vec<String>> {
    let joined = text.replace("\\\n", " ");
    let lines =
        joined.lines().map(|line| line.trim_start_matches("# ").trim_start_matches('#').trim());
    lines
        .filter_map(|line| line.find(&format!("{program} ")).map(|at| words(&line[at..])))
        .collect()
}

/// The words of a command, as a shell would split them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut is_quoted, mut is_open) = (Vec::new(), false, false);
    for c in line.chars() {
        match c {
            '"' => (is_quoted, is_open) = (!is_quoted, is_open),
            ' ' if !is_quoted => is_open = false,
            '#' | '|' | '&' if !is_quoted && !is_open => break,
            _ => {
                if !is_open {
                    words.push(String::new());
                    is_open = true;
                }
                words.last_mut().unwrap().push(c);
            }
        }
    }
    words
}

/// Runs the words after the program's name.
fn run(command: &[String], variables: &[(&str, &str)]) -> Said {
    let args: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
    trainyard_in(Path::new(env!("CARGO_MANIFEST_DIR")), &args, variables)
}

/// Asserts that a task's command line was understood, down to its certificate, which is not there,
/// and gives its role.
#[track_caller]
fn assert_lacks_only_its_certificate(
    command: &[String],
    variables: &[(&str, &str)],
    certificate: &str,
) {
    let said = run(command, variables);
    assert_eq!(said.code, 11, "{}", said.err);
    assert!(said.err.contains(&format!("can't read {certificate}")), "{command:?}: {}", said.err);
}

/// The jobs of a manifest, each with its number of pods.
fn replicas(manifest: &str) -> Vec<(String, usize)> {
    let jobs = manifest.lines().filter_map(|line| {
        line.trim()
            .strip_suffix(':')
            .filter(|job| ["Chief", "PS", "Worker", "Evaluator"].contains(job))
    });
    let counts =
        manifest.lines().filter_map(|line| line.trim().strip_prefix("replicas: ")?.parse().ok());
    jobs.map(str::to_lowercase).zip(counts).collect()
}

/// The arguments of a manifest's pods, which are the same for all.
fn args_of_pods(manifest: &str) -> Vec<String> {
    let args = manifest.lines().find_map(|line| line.trim().strip_prefix("args: ")).unwrap();
    serde_json::from_str(args).unwrap()
}

/// What a shorter training is told than the manifest's.
const SHORT: [&str; 4] = ["--set", "stop.steps=20", "--unset", "stop.accuracy"];

/// Runs all pods of a manifest as processes on this machine, as the training operator would: the
/// same arguments for all, the variable `TF_CONFIG`, and what is mounted. Returns what each said.
fn run_pods(test: &str, manifest: &str) -> Vec<(String, Said)> {
    let (place, replicas) = (folder(test), replicas(manifest));
    for command in commands(manifest, "trainyard certs") {
        let args: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
        assert_eq!(trainyard_in(&place, &args, &[]).code, 0, "{command:?}");
    }
    let addresses = |count: usize| (0..count).map(|_| free_address()).collect::<Vec<_>>();
    // The operator lists no evaluator among the others.
    let listed = replicas.iter().filter(|(job, _)| job != "evaluator");
    let cluster: Value =
        listed.map(|(job, count)| (job.clone(), json!(addresses(*count)))).collect();
    let pods = replicas.iter().flat_map(|(job, count)| (0..*count).map(move |i| (job.clone(), i)));
    let start = |(job, index): (String, usize)| {
        let mounted = |volume: &str| place.join(volume).to_str().unwrap().to_owned();
        let args = args_of_pods(manifest).into_iter().map(|arg| {
            arg.replace("/certs", &mounted("certs/tasks"))
                .replace("=/checkpoints", &format!("={}", mounted("checkpoints")))
                .replace("/results", &mounted(&format!("results-{job}-{index}")))
        });
        let task = json!({"type": job, "index": index});
        let config = json!({"cluster": cluster, "task": task, "environment": "cloud"});
        let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
        command.args(args).args(SHORT).current_dir(env!("CARGO_MANIFEST_DIR"));
        command.env("TF_CONFIG", config.to_string());
        (format!("{job}-{index}"), Running::start(&mut command, Duration::from_secs(120)))
    };
    let running: Vec<_> = pods.map(start).collect();
    running.into_iter().map(|(pod, process)| (pod, process.end())).collect()
}

/// The weights that a training of the manifest's pods ends with in simulation.
fn simulated_weights(manifest: &str) -> String {
    let args = args_of_pods(manifest);
    let mut sim = vec!["sim".to_owned(), args[1].clone()];
    sim.extend(["--run", "sync"].map(str::to_owned));
    let trains = |(job, _): &(String, usize)| job != "evaluator";
    for (job, count) in replicas(manifest).into_iter().filter(trains) {
        sim.extend(["--set".to_owned(), format!("cluster.{job}={count}")]);
    }
    sim.extend(SHORT.map(str::to_owned));
    let sim: Vec<&str> = sim.iter().map(String::as_str).collect();
    weights(&trainyard_in(Path::new(env!("CARGO_MANIFEST_DIR")), &sim, &[]))
}

#[track_caller]
fn weights(said: &Said) -> String {
    let weights = said.out.split("weights=").nth(1);
    weights.unwrap_or_else(|| panic!("no weights: {}{}", said.out, said.err)).trim().to_owned()
}

#[test]
fn the_pods_of_a_manifest_with_tf_config_alone_learn_what_the_simulation_does() {
    let manifest = file("kubernetes.yaml");
    let pods = run_pods("deploy_pods", &manifest);
    assert!(pods.iter().all(|(_, said)| said.code == 0), "{}", errors(&pods));
    let chief = &pods.iter().find(|(pod, _)| pod == "worker-0").unwrap().1;
    assert_eq!(weights(chief), simulated_weights(&manifest));
}

#[test]
fn the_pods_of_a_manifest_with_a_chief_and_an_evaluator_learn_the_same_and_are_measured() {
    let manifest = file("train_and_evaluate.yaml");
    let pods = run_pods("deploy_estimator", &manifest);
    assert!(pods.iter().all(|(_, said)| said.code == 0), "{}", errors(&pods));
    let of = |pod: &str| &pods.iter().find(|(name, _)| name == pod).unwrap().1;
    assert_eq!(weights(of("chief-0")), simulated_weights(&manifest));
    let results = Path::new(env!("CARGO_TARGET_TMPDIR")).join("deploy_estimator");
    let rows = fs::read_to_string(results.join("results-evaluator-0/evaluations.csv")).unwrap();
    assert!(rows.lines().last().unwrap().split(',').any(|cell| cell == "20"), "{rows}");
}

/// The text after `key` in each line that begins with it.
fn values<'a>(manifest: &'a str, key: &str) -> Vec<&'a str> {
    let value = |line: &'a str| line.trim_start_matches([' ', '-']).strip_prefix(key);
    manifest.lines().filter_map(value).map(str::trim).collect()
}

/// Runs all pods of a JobSet as processes on this machine: the arguments and the variables of each
/// job, with the index of the pod and addresses of this machine put in, and what is mounted.
fn run_pods_of_a_jobset(test: &str, manifest: &str) -> Vec<(String, Said)> {
    let place = folder(test);
    for command in commands(manifest, "trainyard certs") {
        let args: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
        assert_eq!(trainyard_in(&place, &args, &[]).code, 0, "{command:?}");
    }
    let hosts: Vec<(String, String)> = values(manifest, "value: ")
        .iter()
        .flat_map(|hosts| hosts.split(','))
        .map(|host| (host.to_owned(), free_address()))
        .collect();
    let on_this_machine = |text: &str| {
        hosts.iter().fold(text.to_owned(), |text, (host, here)| text.replace(host, here))
    };
    let variables: Vec<(&str, String)> = values(manifest, "name: TRAINYARD_")
        .into_iter()
        .zip(values(manifest, "value: "))
        .map(|(name, hosts)| (name, on_this_machine(hosts)))
        .collect();
    let mut running = Vec::new();
    for (args, count) in
        values(manifest, "args: ").into_iter().zip(values(manifest, "completions: "))
    {
        let args: Vec<String> = serde_json::from_str(args).unwrap();
        for index in 0..count.parse().unwrap() {
            let index: usize = index;
            let mounted = |volume: &str| place.join(volume).to_str().unwrap().to_owned();
            let own: Vec<String> = args
                .iter()
                .map(|arg| arg.replace("$(JOB_COMPLETION_INDEX)", &index.to_string()))
                .map(|arg| arg.replace("/certs", &mounted("certs/tasks")))
                .map(|arg| arg.replace("/results", &mounted("results")))
                .collect();
            let mut command = Command::new(env!("CARGO_BIN_EXE_trainyard"));
            command.args(&own).args(SHORT).current_dir(env!("CARGO_MANIFEST_DIR"));
            for (name, hosts) in &variables {
                command.env(format!("TRAINYARD_{name}"), hosts);
            }
            let pod = own.last().unwrap().clone();
            running.push((pod, Running::start(&mut command, Duration::from_secs(120))));
        }
    }
    running.into_iter().map(|(pod, process)| (pod, process.end())).collect()
}

#[test]
fn the_pods_of_a_jobset_with_their_arguments_alone_learn_what_the_simulation_does() {
    let manifest = file("jobset.yaml");
    let pods = run_pods_of_a_jobset("deploy_jobset", &manifest);
    let names: Vec<&str> = pods.iter().map(|(pod, _)| &**pod).collect();
    assert_eq!(names, ["ps:0", "ps:1", "worker:0", "worker:1", "worker:2", "worker:3"]);
    assert!(pods.iter().all(|(_, said)| said.code == 0), "{}", errors(&pods));
    let chief = &pods.iter().find(|(pod, _)| pod == "worker:0").unwrap().1;
    assert_eq!(weights(chief), simulated_weights(&file("kubernetes.yaml")), "the same training");
}

#[test]
fn a_jobset_fails_by_each_exit_code_that_no_restart_can_mend_and_by_no_other() {
    let manifest = file("jobset.yaml");
    let listed: Vec<i32> = serde_json::from_str(values(&manifest, "values: ")[0]).unwrap();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/deploying.md");
    let docs = fs::read_to_string(docs).unwrap();
    let table = docs.split("## Exit codes").nth(1).unwrap().split("\n## ").next().unwrap();
    let code = |line: &str| line.strip_prefix("| ")?.split(' ').next()?.parse().ok();
    let known: Vec<i32> = table.lines().filter_map(code).filter(|c| (1..128).contains(c)).collect();
    assert!(known.len() >= 10 && listed == known, "{listed:?} and {known:?}");
}

/// What pods that failed said.
fn errors(pods: &[(String, Said)]) -> String {
    let failed = pods.iter().filter(|(_, said)| said.code != 0);
    failed.map(|(pod, said)| format!("{pod} ended with {}: {}\n", said.code, said.err)).collect()
}

#[test]
fn the_manifest_gives_each_pod_its_role() {
    let manifest = file("kubernetes.yaml");
    let replicas = replicas(&manifest);
    let [(_, ps), (_, workers)] = replicas[..] else { panic!("{replicas:?}: not ps and workers") };
    let mut command = vec!["trainyard".to_owned()];
    command.extend(args_of_pods(&manifest));

    let hosts = |role: &str, count: usize| -> Vec<String> {
        (0..count).map(|index| format!("digits-{role}-{index}.default.svc:2222")).collect()
    };
    let cluster = json!({"ps": hosts("ps", ps), "worker": hosts("worker", workers)});
    for (role, count) in [("ps", ps), ("worker", workers)] {
        for index in 0..count {
            let config = json!({
                "cluster": cluster, "task": {"type": role, "index": index}, "environment": "cloud",
            });
            let variables = [("TF_CONFIG", &*config.to_string())];
            assert_lacks_only_its_certificate(
                &command,
                &variables,
                &format!("/certs/{role}-{index}.pem"),
            );
            let told = run(&["trainyard".to_owned(), "cluster".to_owned()], &variables);
            assert!(told.out.contains(&format!("task     {role}:{index}")), "{}", told.out);
            assert!(told.out.contains("chief    worker:0"), "{}", told.out);
            assert!(told.out.contains("ps:1     digits-ps-1.default.svc:2222"), "{}", told.out);
        }
    }
    // With `enableDynamicWorker: true`, workers are told of the parameter servers and themselves.
    let config = json!({
        "cluster": {"ps": cluster["ps"], "worker": {"3": "digits-worker-3.default.svc:2222"}},
        "task": {"type": "worker", "index": 3},
    });
    assert_lacks_only_its_certificate(
        &command,
        &[("TF_CONFIG", &config.to_string())],
        "/certs/worker-3.pem",
    );
}

#[test]
fn the_certificates_that_the_manifest_asks_for_are_those_of_its_tasks() {
    let folder = folder("deploy_certs");
    let certs: Vec<_> = commands(&file("kubernetes.yaml"), "trainyard certs");
    assert_eq!(certs.len(), 2);
    for command in certs {
        let args: Vec<&str> = command.iter().skip(1).map(String::as_str).collect();
        let said = trainyard_in(&folder, &args, &[]);
        assert_eq!(said.code, 0, "{command:?}: {}", said.err);
    }
    let mut names: Vec<String> = fs::read_dir(folder.join("certs/tasks"))
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    names.retain(|name| name.ends_with(".pem"));
    names.sort();
    let expected =
        "authority.pem ps-0.pem ps-1.pem worker-0.pem worker-1.pem worker-2.pem worker-3.pem";
    assert_eq!(names.join(" "), expected);
    assert!(!folder.join("certs/tasks/authority.key").exists());
}

#[test]
fn the_script_gives_each_rank_its_role() {
    let script = file("slurm.sh").replace("$SLURM_JOB_ID", "4711");
    let setting = |name: &str| {
        script.lines().find_map(|line| line.strip_prefix(&format!("#SBATCH --{name}="))).unwrap()
    };
    let nodes: usize = setting("nodes").parse().unwrap();
    let per_node: usize = setting("ntasks-per-node").parse().unwrap();
    let folder = folder("deploy_slurm");
    let script = script.replace("$certs", folder.to_str().unwrap());
    for command in commands(&script, "trainyard certs") {
        let said = run(&command, &[]);
        assert_eq!(said.code, 0, "{command:?}: {}", said.err);
    }
    let mut task = commands(&script, "trainyard task").remove(0);
    let ranks = nodes * per_node;
    let variables = |rank: usize| {
        vec![
            ("SLURM_PROCID", rank.to_string()),
            ("SLURM_NTASKS", ranks.to_string()),
            ("SLURM_JOB_ID", "4711".to_owned()),
            ("SLURM_JOB_NODELIST", "other[1-9]".to_owned()),
            ("SLURM_STEP_NODELIST", "node[08-09],gpu[1-2]".to_owned()),
            ("SLURM_STEP_TASKS_PER_NODE", format!("{per_node}(x{nodes})")),
        ]
    };
    let hosts = ["node08", "node09", "gpu1", "gpu2"];
    for rank in 0..ranks {
        let variables = variables(rank);
        let variables: Vec<(&str, &str)> =
            variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let (role, index) = if rank < 2 { ("ps", rank) } else { ("worker", rank - 2) };
        let told = run(&["trainyard", "cluster", "--ps", "2"].map(str::to_owned), &variables);
        let port = 10_000 + 4711 % 2000 * 10 + rank % per_node;
        let name = format!("{role}:{index}");
        let expected = format!("{name:<8} {}:{port}", hosts[rank / per_node]);
        assert!(
            told.out.contains(&format!("task     {name}")) && told.out.contains(&expected),
            "{}",
            told.out
        );
        assert!(
            folder.join(format!("{role}-{index}.pem")).exists(),
            "{role}:{index} has no certificate"
        );
    }
    let certs = task.iter().position(|word| word == "--certs").unwrap();
    task[certs + 1] = "/no/certs".to_owned();
    let third = variables(2);
    let third: Vec<(&str, &str)> =
        third.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_lacks_only_its_certificate(&task, &third, "/no/certs/worker-0.pem");
}

/// What the sources below `folder` include in themselves: the source, and the file.
fn included(folder: &Path) -> Vec<(PathBuf, PathBuf)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let source = entry.unwrap().path();
        if source.is_dir() {
            found.append(&mut included(&source));
        } else if source.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&source).unwrap();
            for rest in text.split("include_").skip(1) {
                let rest = rest.strip_prefix("str!(\"").or(rest.strip_prefix("bytes!(\""));
                let path = rest.and_then(|rest| rest.split_once("\")"));
                if let Some((path, _)) = path {
                    let path = source.with_file_name(path).canonicalize().unwrap();
                    found.push((source.clone(), path));
                }
            }
        }
    }
    found
}

#[test]
fn the_image_has_what_it_copies_and_starts_what_there_is() {
    let image = file("Dockerfile");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for line in image.lines().filter(|line| line.starts_with("COPY ") && !line.contains("--from")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        for path in &words[1..words.len() - 1] {
            assert!(root.join(path).exists(), "{line}");
        }
    }
    let root = root.canonicalize().unwrap();
    let copied: Vec<&str> = values(&image, "COPY ")
        .iter()
        .filter(|line| !line.contains("--from"))
        .flat_map(|line| line.split_whitespace().rev().skip(1))
        .collect();
    for (source, path) in included(&root.join("src")) {
        let top = path.strip_prefix(&root).unwrap().iter().next().unwrap().to_str().unwrap();
        assert!(copied.contains(&top), "{}: needs {}", source.display(), path.display());
    }
    let entry = image.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(entry).unwrap(), json!(["trainyard"]));
    for command in commands(&image, "docker run --rm trainyard") {
        let args: Vec<String> = command[3..].iter().cloned().chain(["--help".to_owned()]).collect();
        let said = run(&args, &[]);
        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
    }
}
