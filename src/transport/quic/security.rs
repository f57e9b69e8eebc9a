//! Mutual TLS 1.3: the settings of both roles, and the check of a peer's name.

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{CipherSuite, ClientConfig, RootCertStore, ServerConfig, version};
use rustls_pki_types::{CertificateDer, ServerName};

use super::super::certificates::{Identity, task_domain};
use super::super::wire::VERSION;
use super::super::{ASKER, CLIENT};
use super::QuicError;
use crate::clock::date;
use crate::cluster::TaskName;

/// The protocol's name and version, which must be equal at both ends (TLS: ALPN).
fn protocol() -> Vec<u8> {
    format!("trainyard/{VERSION}").into_bytes()
}

/// The TLS settings of a task with `identity`, as client and as server.
pub(super) fn roles(
    task: &TaskName,
    identity: &Identity,
) -> Result<(QuicClientConfig, QuicServerConfig), QuicError> {
    let owner = asker_as_client(task).unwrap_or_else(|| task.clone());
    let refused = |reason: String| QuicError::Identity { task: owner.clone(), reason };
    let tls = |error: rustls::Error| refused(error.to_string());
    let is_own = |task: &TaskName| names(&identity.certificate(), task);
    if !is_own(task) && !asker_as_client(task).is_some_and(|client| is_own(&client)) {
        return Err(refused("it belongs to another task".to_owned()));
    }
    let mut roots = RootCertStore::empty();
    roots.add(identity.authority()).map_err(tls)?;
    let roots = Arc::new(roots);
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider());
    let verifier = verifier.build().map_err(|error| refused(error.to_string()))?;
    let chain = || vec![identity.certificate()];

    let server =
        ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&version::TLS13]);
    let server = server.map_err(tls)?.with_client_cert_verifier(verifier);
    let mut server = server.with_single_cert(chain(), identity.key()).map_err(tls)?;
    server.alpn_protocols = vec![protocol()];
    server.session_storage = Arc::new(NoServerSessionStorage {});
    server.send_tls13_tickets = 0;

    let client =
        ClientConfig::builder_with_provider(provider()).with_protocol_versions(&[&version::TLS13]);
    let client = client.map_err(tls)?.with_root_certificates(roots);
    let mut client = client.with_client_auth_cert(chain(), identity.key()).map_err(tls)?;
    client.alpn_protocols = vec![protocol()];
    client.resumption = Resumption::disabled();

    let unfit = |_| refused("its cipher suites don't fit QUIC".to_owned());
    Ok((
        QuicClientConfig::try_from(client).map_err(unfit)?,
        QuicServerConfig::try_from(server).map_err(unfit)?,
    ))
}

/// All of these ciphers are secure; the fastest on this machine comes first.
fn provider() -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider
        .cipher_suites
        .sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    Arc::new(provider)
}

/// Whether `certificate` has the name of `task`.
pub(super) fn names(certificate: &CertificateDer<'_>, task: &TaskName) -> bool {
    let Ok(domain) = task_domain(task) else { return false };
    let parsed = ParsedCertificate::try_from(certificate);
    parsed.is_ok_and(|parsed| verify_server_name(&parsed, &ServerName::DnsName(domain)).is_ok())
}

/// The client whose certificate proves the name of `task`, if that is an asker.
pub(super) fn asker_as_client(task: &TaskName) -> Option<TaskName> {
    (task.job() == ASKER).then(|| TaskName::new(CLIENT, task.index()))
}

/// The lower bits of an incarnation, which are random: two that begin in one microsecond differ.
const RANDOM_BITS: u32 = 12;

/// A number that differs between any two incarnations of a task, and grows from one to the next as
/// far as the clocks of their machines agree.
pub(super) fn incarnation() -> Result<u64, QuicError> {
    let mut bytes = [0; 2];
    let random = aws_lc_rs::default_provider().secure_random.fill(&mut bytes);
    random.map_err(|_| QuicError::Randomness)?;
    let since = date().duration_since(UNIX_EPOCH).unwrap_or_default();
    let random = u64::from(u16::from_le_bytes(bytes)) & ((1 << RANDOM_BITS) - 1);
    Ok((since.as_micros() as u64) << RANDOM_BITS | random)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::super::certificates::Authority;
    use super::*;

    #[test]
    fn an_asker_whose_key_is_damaged_hears_of_the_clients_files_and_how_to_renew_them() {
        let (client, asker) = (TaskName::new(CLIENT, 0), TaskName::new(ASKER, 0));
        let authority = Authority::new("run").unwrap();
        let issued = || authority.issue(&client, &[]).unwrap().into_texts();
        let ([certificate, _, root], [_, other, _]) = (issued(), issued());
        let identity = Identity::of_texts([certificate, other, root], Path::new("x")).unwrap();
        let told = roles(&asker, &identity).err().unwrap().to_string();
        assert!(told.contains("the certificate of client:0, or its key"), "{told}");
        assert!(told.contains("`trainyard certs renew DIR --task client:0`"), "{told}");
    }
}
