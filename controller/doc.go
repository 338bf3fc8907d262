// Package controller reconciles: it calls a function for every object of a kind
// whenever the object, or something it depends on, changes, until it says done.
//
//	echoes := kube.For[Echo](client)
//	deployments := kube.For[appsv1.Deployment](client)
//	err := controller.Run(ctx, controller.Options{Lease: lease.Lease{Name: "echo-operator"}, Address: ":8080"},
//		controller.Controller[Echo]{
//			For:       echoes,
//			Owns:      []kube.Source{deployments},
//			Reconcile: func(ctx context.Context, e *Echo) (controller.Action, error) { … },
//		})
//
// [Run] runs any number of [Controller]s, which share stores, one HTTP port
// and one lease, until its context ends; [Signals] makes a context that ends as
// a program's should.
//
// # From a change to a reconcile
//
// A change enters in source.go, which finds the keys that it concerns; queue.go
// says whose turn it is, engine.go hands out the turns, and reconcile.go takes one
// from the object to the [Action], with what deletion asks for in finalizer.go.
// run.go puts a program together, and activity.go starts and stops its controllers
// and [Runnable]s.
//
// # Guarantees
//
// An object is reconciled by one goroutine at a time, and again after whatever
// changed while it was. No reconcile runs before all objects of all the
// controller's sources are known, nor before the lease is held. The object that a
// reconcile gets is its own copy, and not older than what this process has written
// to it; nor is what it reads from stores. What failed is tried again, see
// [Backoff]; a panic is a failure. Changes go ahead of the initial listing and of
// resyncs.
//
// # Caveats
//
// Changes are added up: a reconcile sees how things are, not every step of how
// they got there. Objects whose deletion has begun are cleaned up after, not
// reconciled: what a reconcile would make anew the garbage collector may be about
// to delete.
package controller
