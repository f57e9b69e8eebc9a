//! Authorities and identities: saved and loaded, their names, and mistakes in them.

use super::*;

fn folder(name: &str) -> PathBuf {
    let folder =
        std::env::temp_dir().join(format!("trainyard-certificates-{}-{name}", std::process::id()));
    let _absent = std::fs::remove_dir_all(&folder);
    folder
}

#[test]
fn an_authority_and_what_it_issues_come_back_from_their_files() {
    let folder = folder("files");
    let task = TaskName::new("ps", 0);
    Authority::new("run").unwrap().save(&folder).unwrap();
    let issued = Authority::load(&folder)
        .unwrap()
        .issue(&task, &["127.0.0.1".into(), "ps0.example".into()])
        .unwrap();
    issued.save(&folder, &task).unwrap();
    let loaded = Identity::load(&folder, &task).unwrap();
    assert_eq!(
        (loaded.certificate, loaded.key, loaded.authority),
        (issued.certificate, issued.key, issued.authority)
    );
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_loaded_authority_has_the_name_that_its_certificate_has() {
    let folder = folder("names");
    for run in ["run", "größer", &"x".repeat(80)] {
        let authority = Authority::new(run).unwrap();
        authority.save(&folder).unwrap();
        let loaded = Authority::load(&folder).unwrap();
        let name = |authority: &Authority| authority.params.distinguished_name.clone();
        assert_eq!(name(&loaded), name(&authority), "{run}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn keys_are_readable_to_their_owner_alone_even_where_the_file_was_there() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("modes");
    let task = TaskName::new("ps", 0);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("ps-0.key"), "old").unwrap();
    let authority = Authority::new("run").unwrap();
    authority.save(&folder).unwrap();
    authority.issue(&task, &[]).unwrap().save(&folder, &task).unwrap();
    for key in ["authority.key", "ps-0.key"] {
        let mode = std::fs::metadata(folder.join(key)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{key}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn mistakes_name_the_file_and_what_to_do() {
    let folder = folder("mistakes");
    let task = TaskName::new("ps", 0);
    let missing = Identity::load(&folder, &task).unwrap_err().to_string();
    assert!(missing.contains("ps-0.pem") && missing.contains("certs issue"), "{missing}");
    let authority = Authority::new("run").unwrap();
    authority.save(&folder).unwrap();
    let exists = authority.save(&folder).unwrap_err().to_string();
    assert!(exists.contains("authority.pem") && exists.contains("another folder"), "{exists}");
    authority.issue(&task, &[]).unwrap().save(&folder, &task).unwrap();
    let other = Authority::new("run").unwrap().issue(&task, &[]).unwrap();
    assert!(matches!(other.save(&folder, &task), Err(CertificateError::NotItsAuthority(_))));
    std::os::unix::fs::symlink("/dev/zero", folder.join("ps-1.pem")).unwrap();
    let endless = Identity::load(&folder, &TaskName::new("ps", 1)).unwrap_err().to_string();
    assert!(endless.contains("ps-1.pem") && endless.contains("a device"), "{endless}");
    std::fs::write(folder.join("ps-0.key"), "garbage").unwrap();
    let damaged = Identity::load(&folder, &task).unwrap_err().to_string();
    assert!(damaged.contains("ps-0.key") && damaged.contains("private key"), "{damaged}");
    assert!(damaged.contains("`trainyard certs renew DIR --task ps:0`"), "{damaged}");
    std::fs::remove_file(folder.join("ps-0.key")).unwrap();
    let half = Identity::load(&folder, &task).unwrap_err().to_string();
    assert!(half.contains("`trainyard certs renew DIR --task ps:0`"), "{half}");
    std::fs::remove_file(folder.join("ps-0.pem")).unwrap();
    let none = Identity::load(&folder, &task).unwrap_err().to_string();
    assert!(none.contains("`trainyard certs issue DIR --task ps:0`"), "{none}");
    std::fs::write(folder.join("authority.key"), KeyPair::generate().unwrap().serialize_pem())
        .unwrap();
    let foreign = Authority::load(&folder).unwrap_err().to_string();
    assert!(foreign.contains("authority.key is not its key"), "{foreign}");
    std::fs::write(folder.join("authority.key"), "garbage").unwrap();
    assert!(matches!(Authority::load(&folder), Err(CertificateError::Malformed { .. })));
    assert!(matches!(authority.issue(&task, &["a b".into()]), Err(CertificateError::Host(_))));
    let long = TaskName::new("x".repeat(80), 0);
    assert!(matches!(authority.issue(&long, &[]), Err(CertificateError::Task(_))));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_certificate_beside_another_authority_is_refused_whether_its_name_is_the_same_or_not() {
    let task = TaskName::new("ps", 0);
    for other in ["run", "another"] {
        let folder = folder(&format!("mixed-{other}"));
        let authority = Authority::new("run").unwrap();
        authority.issue(&task, &[]).unwrap().save(&folder, &task).unwrap();
        Identity::load(&folder, &task).unwrap();
        std::fs::write(folder.join("authority.pem"), Authority::new(other).unwrap().certificate)
            .unwrap();
        let error = Identity::load(&folder, &task).unwrap_err();
        assert!(matches!(error, CertificateError::OtherAuthority(_)), "{error}");
        let told = error.to_string();
        assert!(told.contains("ps-0.pem is not signed by the authority.pem beside it"), "{told}");
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_damaged_certificate_of_the_authority_is_named_and_how_to_replace_it() {
    let folder = folder("damaged-authority");
    let task = TaskName::new("ps", 0);
    let issued = Authority::new("run").unwrap().issue(&task, &[]).unwrap();
    issued.save(&folder, &task).unwrap();
    let path = folder.join("authority.pem");
    let mut damaged = std::fs::read(&path).unwrap();
    damaged[30] = if damaged[30] == b'A' { b'B' } else { b'A' };
    std::fs::write(&path, damaged).unwrap();
    let told = Identity::load(&folder, &task).unwrap_err().to_string();
    assert!(told.contains("authority.pem is not a certificate"), "{told}");
    assert!(told.contains("copy it from the authority's folder"), "{told}");
    let renewed = issued.save(&folder, &task).unwrap_err().to_string();
    assert!(renewed.contains("copy authority.pem from the authority's folder"), "{renewed}");
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn no_two_tasks_have_one_name() {
    let name =
        |job: &str, index| task_domain(&TaskName::new(job, index)).unwrap().as_ref().to_owned();
    assert_eq!(name("ps", 0), "ps-0.task.trainyard");
    assert_eq!(name("my_job", 12), "my_job-12.task.trainyard");
    for task in ["ps:0", "Ps:10", "pS:0", "my_job:12"] {
        let task: TaskName = task.parse().unwrap();
        assert_eq!(task_of_domain(task_domain(&task).unwrap().as_ref()), Some(task));
    }
    assert_eq!(task_of_domain("ps-0.example"), None);
    let names = [
        name("ps", 0),
        name("Ps", 0),
        name("pS", 0),
        name("PS", 0),
        name("ps0", 0),
        name("ps", 10),
    ];
    let different: std::collections::BTreeSet<_> =
        names.iter().map(|name| name.to_ascii_lowercase()).collect();
    assert_eq!(different.len(), names.len());
}

#[test]
fn no_host_is_a_name_in_the_clusters_own_domain() {
    let authority = Authority::new("run").unwrap();
    let issued = |host: &str| authority.issue(&TaskName::new("worker", 1), &[host.to_owned()]);
    for host in
        ["ps-0.task.trainyard", "PS-0.Task.Trainyard", "task.trainyard", "ps-0.task.trainyard."]
    {
        let error = issued(host).unwrap_err().to_string();
        assert!(error.contains("the cluster's own domain") && error.contains("--task"), "{error}");
    }
    for host in ["trainyard.example", "mytask.trainyard", "10.0.0.1"] {
        issued(host).unwrap();
    }
}

#[test]
fn a_private_key_that_others_can_read_is_refused() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;
    let folder = folder("exposed");
    let task = TaskName::new("ps", 0);
    let authority = Authority::new("run").unwrap();
    authority.save(&folder).unwrap();
    authority.issue(&task, &[]).unwrap().save(&folder, &task).unwrap();
    let expose = |file: &str, mode| {
        set_permissions(folder.join(file), Permissions::from_mode(mode)).unwrap();
    };
    for mode in [0o644, 0o604, 0o602] {
        expose("ps-0.key", mode);
        let error = Identity::load(&folder, &task).unwrap_err().to_string();
        assert!(error.contains("chmod 600") && error.contains("ps-0.key"), "{mode:o}: {error}");
    }
    expose("ps-0.key", 0o400);
    Identity::load(&folder, &task).unwrap();
    expose("authority.key", 0o644);
    assert!(matches!(Authority::load(&folder), Err(CertificateError::Exposed(_))));
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_is_wrong_with_a_torn_certificate_is_told_in_letters() {
    let told = |pem: &str| {
        let parsed = CertificateDer::from_pem_slice(pem.as_bytes());
        malformed(Path::new("a.pem"), "certificate", &parsed.unwrap_err()).to_string()
    };
    let torn = told("-----BEGIN CERTIFICATE-----\nMIIB\n");
    assert!(torn.contains("missing section end marker: `CERTIFICATE`; copy it"), "{torn}");
    let other = told("");
    assert!(other.contains("PEM: no items found; copy it"), "{other}");
    let bytes = malformed(Path::new("a.pem"), "certificate", &"b: [300, x]").to_string();
    assert!(bytes.contains("b: [300, x]"), "no bytes: {bytes}");
}
