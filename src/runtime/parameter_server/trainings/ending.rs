//! Who is told by a parameter server that the training is over, beside those whom the chief tells.

use super::Trainings;
use crate::runtime::messages::ParameterServerMessage;

impl Trainings {
    /// Tells the task that counts the steps, before it hears of one whose gradient is dropped here:
    /// the chief's word may come there later than that.
    pub(crate) fn tell_counter_of_the_end(&mut self) {
        if let Some(counter) = self.counter
            && !std::mem::replace(&mut self.has_told_counter, true)
        {
            self.link.send(counter, ParameterServerMessage::TrainingOver);
        }
    }
}
