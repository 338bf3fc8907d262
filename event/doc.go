// Package event tells people what a program does to objects, by Events of
// events.k8s.io, which kubectl describe and kubectl events show.
//
//	events := &event.Recorder{Client: client, Controller: "example.com/echo-operator"}
//	go events.Run(ctx)
//	…
//	events.Normal(echo, "Scaled", "from %d to %d replicas", was, is)
//	events.Warning(echo, "ApplyFailed", "Deployment %s: %v", name, err)
//
// [Recorder.Normal] and its like only take note; [Recorder.Run] writes. The file
// correlate.go decides which events are the same event again, and when they are
// written, lane.go whose turn it is, write.go writes.
//
// # Guarantees
//
// Recording neither blocks nor fails. The same event again does not make another
// Event, but counts in the series of the first, which is written now and then. An
// object whose reconcile fails again and again, or with ever changing words, causes
// at most 25 requests at once and 1 every 5 minutes after that. A namespace that takes
// no events, or does not answer, holds up no other. Memory is bounded: 5,000 events
// and 10,000 objects are remembered.
//
// # Caveats
//
// Events are for people: some are dropped, if an object has too many or the server
// cannot be reached for long, and the server itself forgets them after an hour.
// Nothing should be decided by them.
package event
