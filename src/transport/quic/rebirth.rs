//! How a task that has restarted tells those who do not know it yet: by a stateless reset (RFC
//! 9000, 10.3).
//!
//! It has no connection any more, but the same private key, and with that the proof that it may end
//! the old ones. So whoever has dialed the life before hears of it when it next sends something,
//! and not by silence. (Whom that life had dialed has no such proof, since only servers give one
//! with their first name of a connection.)

use std::sync::Arc;
use std::time::Duration;

use quinn::crypto::{CryptoError, HmacKey};
use quinn::{ConnectionId, ConnectionIdGenerator, EndpointConfig};
use rustls::crypto::ring;
use rustls::crypto::tls13::{Hkdf, OkmBlock};

use super::super::certificates::Identity;

/// What the key is made for, so that it is no other's.
const PURPOSE: &[u8] = b"trainyard stateless reset";
/// The length of a tag \[bytes\]: SHA-256.
const TAG: usize = 32;
/// The length of the name of a connection \[bytes\]: enough that none is guessed.
const CONNECTION_ID: usize = 8;

/// The settings of an endpoint whose resets prove that they come from the holder of `identity`.
pub(super) fn endpoint_config(identity: &Identity) -> EndpointConfig {
    let key = hkdf().hmac_sign(&OkmBlock::new(PURPOSE), identity.key().secret_der());
    let mut config = EndpointConfig::new(Arc::new(ResetKey(OkmBlock::new(key.as_ref()))));
    // The default's names of connections are known to the life that made them, which alone would
    // answer.
    config.cid_generator(|| Box::new(Names));
    config
}

fn hkdf() -> &'static dyn Hkdf {
    let suite = ring::cipher_suite::TLS13_AES_128_GCM_SHA256.tls13();
    suite.expect("a cipher suite of TLS 1.3 is one").hkdf_provider
}

struct ResetKey(OkmBlock);

impl HmacKey for ResetKey {
    fn sign(&self, data: &[u8], signature_out: &mut [u8]) {
        signature_out.copy_from_slice(hkdf().hmac_sign(&self.0, data).as_ref());
    }

    fn signature_len(&self) -> usize {
        TAG
    }

    fn verify(&self, data: &[u8], signature: &[u8]) -> Result<(), CryptoError> {
        let differing = hkdf()
            .hmac_sign(&self.0, data)
            .as_ref()
            .iter()
            .zip(signature)
            .fold(0, |sum, (a, b)| sum | (a ^ b));
        if differing == 0 && signature.len() == TAG { Ok(()) } else { Err(CryptoError) }
    }
}

/// Random names of connections, which say nothing of who gave them.
struct Names;

impl ConnectionIdGenerator for Names {
    fn generate_cid(&mut self) -> ConnectionId {
        let mut name = [0; CONNECTION_ID];
        let filled = ring::default_provider().secure_random.fill(&mut name);
        filled.expect("there was randomness when the endpoint was made");
        ConnectionId::new(&name)
    }

    fn cid_len(&self) -> usize {
        CONNECTION_ID
    }

    fn cid_lifetime(&self) -> Option<Duration> {
        None
    }
}
