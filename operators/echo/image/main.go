// Command image builds the container images of the Echo operator and of the echo server
// that is shipped with it, without a container engine, and prints their sizes.
//
//	go run ./operators/echo/image [-dir bin]
//
// Run it in a checkout. It writes the archives echo.tar and echo-server.tar. ctr, docker
// and podman load them.
package main

import "github.com/pintle-go/pintle/operators/internal/ship"

var images = []ship.Image{
	{
		Package: "github.com/pintle-go/pintle/operators/echo",
		Name:    "ghcr.io/pintle-go/echo:v0.1.0",
		Output:  "echo.tar",
	},
	{
		Package: "github.com/pintle-go/pintle/operators/echo/server",
		Name:    "ghcr.io/pintle-go/echo-server:v0.1.0",
		Output:  "echo-server.tar",
	},
}

func main() { ship.Main(images...) }
