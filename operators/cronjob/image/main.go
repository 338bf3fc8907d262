// Command image builds the container image of the CronJob operator, without a container
// engine, and prints its size.
//
//	go run ./operators/cronjob/image [-dir bin]
//
// Run it in a checkout. It writes the archive cronjob.tar. ctr, docker and podman load it.
package main

import "github.com/pintle-go/pintle/operators/internal/ship"

func main() {
	ship.Main(ship.Image{
		Package: "github.com/pintle-go/pintle/operators/cronjob",
		Name:    "ghcr.io/pintle-go/cronjob:v0.1.0",
		Output:  "cronjob.tar",
		Max:     7_500_000,
	})
}
