// SPDX-License-Identifier: Apache-2.0

// Package admin makes and removes topics, initialises the share state of queues, and asks brokers how far queues and
// groups are.
//
// Everything but InitShareState may be done any number of times, and an error may leave a part done: do it again.
// What passes is waited for (TestAdminWaits); what must be put right is KindForbidden, KindConflict or KindInvalid
// with a remedy (TestAdminSaysWhatIsWrong). InitShareState initialises each incarnation of a topic exactly once, also
// when an answer is lost (TestShareStateIsInitialisedOnce, TestLostAnswerToInitialising); two processes must not call
// it for one queue at the same time.
package admin
