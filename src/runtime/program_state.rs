//! What a task's program has asked and told the programs of other tasks: places of variables,
//! values that a worker alone has, and checkpoints.

use std::rc::Rc;

use crate::transport::PeerId;

use crate::runtime::checkpoint_news::{CheckpointNews, News};
use crate::runtime::messages::ProgramMessage;
use crate::runtime::own_values::KnownOwnValues;
use crate::runtime::places::KnownPlaces;

/// A task's part in what programs tell each other. Its program asks, and waits; what others say is
/// heard in turns of the parameter server.
pub(crate) struct ProgramState {
    /// Where the chief has the variables that workers share.
    pub(super) places: KnownPlaces,
    /// The variables that a worker alone has, for checkpoints.
    pub(super) own_values: KnownOwnValues,
    /// Who is told of checkpoints, and what this task has heard of them.
    pub(super) checkpoints: CheckpointNews,
}

impl ProgramState {
    /// Nothing has been asked or told; checkpoints count as `news`.
    pub(super) fn new(news: &Rc<News>) -> Self {
        Self {
            places: KnownPlaces::default(),
            own_values: KnownOwnValues::default(),
            checkpoints: CheckpointNews::new(Rc::clone(news)),
        }
    }

    /// Notes that `message` has arrived: what is to keep its order with a loss of `from`.
    pub(super) fn note_arrival(&self, from: PeerId, message: &ProgramMessage) {
        match message {
            ProgramMessage::CheckpointSaved => self.checkpoints.is_answered(from),
            ProgramMessage::AskForPlaces
            | ProgramMessage::Places(_)
            | ProgramMessage::WatchCheckpoints
            | ProgramMessage::AskForOwnValues { .. }
            | ProgramMessage::AskForRestoredValues
            | ProgramMessage::OwnValues(_) => {}
        }
    }

    /// The turn of `message` has come. Returns the answer to it, if there is one now; `is_chief`
    /// says whether this task is the chief's.
    pub(super) fn hear(
        &self,
        from: PeerId,
        message: ProgramMessage,
        is_chief: bool,
    ) -> Option<ProgramMessage> {
        match message {
            ProgramMessage::AskForPlaces => self.places.own_for(from).map(ProgramMessage::Places),
            ProgramMessage::Places(places) => {
                self.places.hear(from, places);
                None
            }
            ProgramMessage::AskForOwnValues { count } => {
                Some(ProgramMessage::OwnValues(self.own_values.answer(from, count)))
            }
            ProgramMessage::AskForRestoredValues => {
                Some(ProgramMessage::OwnValues(self.own_values.restored_for(from)))
            }
            ProgramMessage::OwnValues(answer) => {
                self.own_values.hear(from, answer, is_chief);
                None
            }
            ProgramMessage::WatchCheckpoints => {
                self.checkpoints.watched_by(from);
                Some(ProgramMessage::CheckpointSaved)
            }
            ProgramMessage::CheckpointSaved => {
                self.checkpoints.hear(from);
                None
            }
        }
    }

    /// `peer` is lost.
    pub(super) fn lose(&self, peer: PeerId) {
        self.checkpoints.lose(peer);
        self.own_values.lose(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::own_values::{OwnValues, OwnValuesAnswer};

    #[test]
    fn each_question_has_one_answer_and_an_answer_has_none() {
        let (state, asker) = (ProgramState::new(&Rc::default()), PeerId(1));
        let hear = |message| state.hear(asker, message, true);
        assert!(hear(ProgramMessage::AskForPlaces).is_none(), "the graph is still to be built");
        assert_eq!(state.places.publish(Vec::new()), [asker].into());
        let places = hear(ProgramMessage::AskForPlaces);
        assert!(matches!(places, Some(ProgramMessage::Places(_))), "{places:?}");
        for question in
            [ProgramMessage::AskForOwnValues { count: 1 }, ProgramMessage::AskForRestoredValues]
        {
            let answer = hear(question);
            assert!(matches!(answer, Some(ProgramMessage::OwnValues(_))), "{answer:?}");
        }
        let watched = hear(ProgramMessage::WatchCheckpoints);
        assert!(matches!(watched, Some(ProgramMessage::CheckpointSaved)), "{watched:?}");
        assert_eq!(state.checkpoints.watchers(), [asker].into());
        let last = OwnValuesAnswer::Last(OwnValues { count: 1, values: Vec::new() });
        for answer in [
            ProgramMessage::Places(Vec::new()),
            ProgramMessage::OwnValues(last),
            ProgramMessage::CheckpointSaved,
        ] {
            assert!(hear(answer).is_none());
        }
        assert!(
            !state.own_values.ask(asker, 1),
            "a worker's last values were taken at the chief's"
        );
    }

    #[test]
    fn a_checkpoint_is_noted_on_arrival_and_counts_as_news_when_its_turn_comes() {
        use crate::runtime::checkpoint_news::Watched;
        let (news, chief) = (Rc::new(News::default()), PeerId(1));
        let state = ProgramState::new(&news);
        state.checkpoints.watch(chief);
        state.note_arrival(chief, &ProgramMessage::AskForPlaces);
        assert_eq!((state.checkpoints.watched(), news.count()), (Watched::Asked, 0));
        state.note_arrival(chief, &ProgramMessage::CheckpointSaved);
        assert_eq!((state.checkpoints.watched(), news.count()), (Watched::Answered, 0));
        let _none = state.hear(chief, ProgramMessage::CheckpointSaved, false);
        assert_eq!((state.checkpoints.watched(), news.count()), (Watched::Answered, 1));
        state.lose(chief);
        assert_eq!((state.checkpoints.watched(), news.count()), (Watched::Lost, 2));
    }
}
