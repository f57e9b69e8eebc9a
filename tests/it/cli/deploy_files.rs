//! The files in `sims/deploy/`: their command lines run, with the variables that Kubernetes'
//! training operator and `srun` set, as far as that goes without Kubernetes and SLURM.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::binary::{Said, folder, trainyard_in};

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

#[test]
fn the_manifest_gives_each_pod_its_role() {
    let manifest = file("kubernetes.yaml");
    let replicas: Vec<usize> = manifest
        .lines()
        .filter_map(|line| line.trim().strip_prefix("replicas: ")?.parse().ok())
        .collect();
    let [ps, workers] = replicas[..] else { panic!("{replicas:?} are not of ps and workers") };
    let args = manifest.lines().find_map(|line| line.trim().strip_prefix("args: ")).unwrap();
    let mut command = vec!["trainyard".to_owned()];
    command.extend(serde_json::from_str::<Vec<String>>(args).unwrap());

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
    let entry = image.lines().find_map(|line| line.strip_prefix("ENTRYPOINT ")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(entry).unwrap(), json!(["trainyard"]));
    for command in commands(&image, "docker run --rm trainyard") {
        let args: Vec<String> = command[3..].iter().cloned().chain(["--help".to_owned()]).collect();
        let said = run(&args, &[]);
        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
    }
}
