// Command book prints the changes of the Books in the namespace that the kubeconfig's
// context names.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/pintle-go/pintle/kube"
)

// Book is an example kind with a title and authors.
type Book struct {
	kube.Object
	Spec struct {
		Title   string   `json:"title"`
		Authors []string `json:"authors,omitempty"`
	} `json:"spec"`
}

// GVK returns the kind.
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
			log.Print(err) // the watch continues by itself
		} else if ev.Type != kube.Synced {
			fmt.Println(ev.Type, ev.Object.Name, ev.Object.Spec.Title)
		}
	}
}
