package main

import (
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/plan"
	"github.com/pintle-go/pintle/plan/page"
)

// pageOf shows the plans of a controller's objects below /plans/, and returns the routes.
func pageOf[T any](c *controller.Controller[T], at string, status func(*T) *plan.Status) []controller.Route {
	p := page.New(c.For, status)
	p.Open = *openPlans
	c.Reconcile, c.Cleanup = p.Remember(c.Reconcile), p.Remember(c.Cleanup)
	return p.Routes("/plans/" + at + "/")
}
