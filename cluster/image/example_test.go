package image_test

import (
	"context"
	"fmt"
	"log"

	"github.com/pintle-go/pintle/cluster/image"
)

// The archive can be loaded by docker, podman and containerd.
func ExampleBuild() {
	result, err := image.Build(context.Background(), image.Options{
		Package: "./cmd/greeter",
		Name:    "ghcr.io/example/greeter:v1",
		Output:  "greeter.tar",
		MaxSize: 10_000_000,
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Name, result.Digest, result.Size)
}

// An image for another processor, of a program that is a module of its own. The program
// gets its version when it is linked.
func ExampleBuild_release() {
	result, err := image.Build(context.Background(), image.Options{
		Dir:     "greeter",
		Package: ".",
		Env:     []string{"GOWORK=off"}, // the versions are those of the module's go.mod
		GOARCH:  "arm64",
		LDFlags: "-X main.version=v1.2.0",
		Name:    "ghcr.io/example/greeter:v1.2.0-arm64",
		Output:  "greeter-arm64.tar",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Name, result.Digest, result.Size)
}
