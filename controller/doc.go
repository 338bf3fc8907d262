// Package controller reconciles. It calls a function for each object of a kind. It calls
// the function again when the object, or something that the object depends on, changes,
// until the function returns [Done]. Its counterparts are controller-runtime's packages
// manager, builder and controller, and kube-rs's Controller.
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
// [Run] runs any number of [Controller]s until its context ends. The controllers share
// stores, one HTTP port and one lease. [Signals] makes a context that ends when the
// process gets a signal to stop.
//
// # From a change to a reconcile
//
// A change enters in follow.go. source.go finds the keys that the change concerns.
// dispatcher.go hands out the turns: one goroutine owns the queue (queue.go) and the
// memory of each key (history.go, loop.go). reconcile.go takes a turn from the object to
// the [Action]; finalizer.go does the part for deletion. run.go puts a program together,
// and activity.go starts and stops its controllers and [Runnable]s.
//
// # Reading
//
// The stores of the kinds that a controller is for, owns, watches or names in Reads are
// in memory. A reconcile reads from them by a handle's [kube.Reader.Cached], and by
// indexes that [kube.IndexBy] declares: [Referenced] shows both. Get and List of a handle
// ask the server.
//
// # Guarantees
//
// One goroutine at a time reconciles an object. If something changes during a reconcile,
// the object is reconciled again. No reconcile runs before all objects of all the
// controller's sources are known, nor before the lease is held. The object that a
// reconcile gets is the reconcile's own copy. Neither this copy nor the objects read from
// stores are older than this process's own writes to them. A failed reconcile is retried,
// see [Backoff]. A panic is a failure, and so is the end of the reconcile's goroutine.
// Changes go ahead of the initial listing and of resyncs, unless [Controller].Priority
// says otherwise.
//
// Predicates and sources are shown each state that the store of their objects has had, and
// that a reconcile may have read, however slow they are. So an object that waits because of
// a state of another object is reconciled when that state is over. If they are more than
// about a thousand updates of the store behind, some states are left out, and all objects
// of the controller are reconciled instead, at most once a minute. A warning is logged
// then. A state that a reconcile has read from the server, and that no store has had, is
// not covered.
//
// Reconciles that cause one another without end are a hot loop: of one object, of several, or
// of several controllers of a Run. A reconcile causes the next one by a write with its context,
// or by a request for less than a second, be it an After, a retry or a resync. After a chain of
// 100 such reconciles the object is reconciled once a second at most, until something else
// causes a reconcile, or a reconcile causes no other. A change by others waits for that second too.
//
// If others undo what reconciles write, each reconcile has a cause of its own, and none is
// delayed. An Ensure that puts the same back for the fifth time in a row, and an object of one
// name that is created for the fifth time, each with no gap of more than an hour, is a fight.
// Fights by other verbs than Ensure are not recognized, and those by Modify only if they are
// loops: both sides must be controllers of the Run.
//
// Loops and fights are reported every five minutes while they last: to the log, as an event
// HotLoop, and by the metric pintle_controller_hot_loops_total. The report of a fight names the
// fields and their field managers. [Controller].Failed is not told: no reconcile has failed.
//
// # Caveats
//
// Changes are merged: a reconcile sees the present state, not every step towards it. An
// object whose deletion has begun is cleaned up and not reconciled: the garbage collector
// may be about to delete the very objects that a reconcile would create again.
package controller
