// Package controller reconciles: it calls a function for every object of a kind
// whenever the object, or something it depends on, changes, until it says done.
//
//	echoes := kube.For[Echo](client)
//	deployments := kube.For[appsv1.Deployment](client)
//	err := controller.Run(ctx, controller.Options{Lease: lease.Lease{Name: "echo-operator"}, Address: ":8080"},
//		controller.Controller[Echo]{
//			For:       echoes,
//			Owns:      []kube.AnyHandle{deployments},
//			Reconcile: func(ctx context.Context, e *Echo) (controller.Action, error) { … },
//		})
//
// [Run] runs any number of [Controller]s, which share stores, one HTTP port
// and one lease, until its context ends; [Signals] makes a context that ends as
// a program's should.
//
// # From a change to a reconcile
//
// A change enters in follow.go. source.go finds the keys that it concerns.
// dispatcher.go hands out the turns, with one goroutine that owns the queue (queue.go)
// and what is remembered of the keys (history.go, loop.go). reconcile.go takes a turn
// from the object to the [Action], with finalizer.go for deletion.
// run.go puts a program together, and activity.go starts and stops its controllers
// and [Runnable]s.
//
// # Reading
//
// The stores of the kinds that a controller is for, owns, watches or names in Reads
// are in memory. A reconcile reads from them by a handle's [kube.Reader.Cached], and
// by indexes that [kube.IndexBy] declares: [Referenced] shows both. Get and List of a
// handle ask the server.
//
// # Guarantees
//
// An object is reconciled by one goroutine at a time, and again after whatever
// changed while it was. No reconcile runs before all objects of all the
// controller's sources are known, nor before the lease is held. The object that a
// reconcile gets is its own copy, and not older than what this process has written
// to it; nor is what it reads from stores. A failed reconcile is tried again, see
// [Backoff]; a panic is a failure, and so is the end of the reconcile's goroutine.
// Changes go ahead of the initial listing and of resyncs, unless [Controller].Priority
// says otherwise.
//
// An object whose reconciles lead to one another without end is slowed down to one
// reconcile a second, and to fewer if that goes on, and reported: see [HotLoopError].
// A change that has nothing to do with the loop waits for nothing.
//
// # Caveats
//
// Changes are added up: a reconcile sees how things are, not every step of how
// they got there. Objects whose deletion has begun are cleaned up after, not
// reconciled: what a reconcile would make anew the garbage collector may be about
// to delete.
package controller
