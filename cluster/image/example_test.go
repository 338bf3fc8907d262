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
