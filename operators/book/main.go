// Command book prints what happens to the Books in the namespace that the
// kubeconfig's context names.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/pintle-go/pintle/kube"
)

// Book is something to read.
type Book struct {
	kube.Object
	Spec struct {
		Title   string   `json:"title"`
		Authors []string `json:"authors,omitempty"`
	} `json:"spec"`
}

// GVK names the kind.
func (Book) GVK() kube.GVK {
	return kube.GVK{Group: "example.technosophos.com", Version: "v1", Kind: "Book"}
}

func main() {
	client, err := kube.Connect()
	if err != nil {
		log.Fatal(err)
	}
	books := kube.For[Book](client).In(client.Namespace())
	for ev, err := range books.Watch(context.Background()) {
		if err != nil {
			log.Print(err) // the watch goes on by itself
		} else if ev.Type != kube.Synced {
			fmt.Println(ev.Type, ev.Object.Name, ev.Object.Spec.Title)
		}
	}
}
