// Package event records the actions of a program on objects, as Events of events.k8s.io
// for people to read. kubectl describe and kubectl events show them.
//
//	events := &event.Recorder{Client: client, Controller: "example.com/echo-operator"}
//	go events.Run(ctx)
//	…
//	events.Normal(echo, "Scaled", "from %d to %d replicas", was, is)
//	events.Warning(echo, "ApplyFailed", "Deployment %s: %v", name, err)
//
// [Recorder.Normal] and the other recording methods only queue an event; [Recorder.Run]
// writes it. correlate.go decides which events repeat an earlier one and when they are
// written, lane.go chooses the next namespace, and write.go writes.
//
// # Guarantees
//
// Recording neither blocks nor fails. A repetition of an event does not make another
// Event: it counts in the series of the first Event, and the series is written from time
// to time. An object whose reconcile fails again and again, even with ever changing
// texts, causes at most 25 requests at once and 1 every 5 minutes after that. A namespace
// that refuses events, or does not answer, does not delay other namespaces. Memory is
// bounded: 5,000 events and 10,000 objects are remembered.
//
// # Caveats
//
// Events are for people. Some are dropped, if an object has too many or the server cannot
// be reached for long, and the server itself deletes them after an hour. No program
// should base decisions on them.
package event
