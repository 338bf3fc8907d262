package kube

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/internal/fieldmanager"
)

// manager returns the field manager of the client's writes. The default is found late,
// because package program learns the name of an operator when the client is in use.
func (c *Client) manager() (string, error) {
	if c.fieldManager != "" {
		return c.fieldManager, nil
	}
	return c.defaultManager()
}

// checkManager returns an error if a request is a write whose field manager has no name.
func (h handle) checkManager(method string) error {
	writes := method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
	if !writes || h.write.FieldManager != "" {
		return nil
	}
	_, err := h.client.manager()
	return err
}

// managerName returns the field manager of the handle's writes, or nothing if
// checkManager refuses them.
func (h handle) managerName() string {
	if h.write.FieldManager != "" {
		return h.write.FieldManager
	}
	name, _ := h.client.manager()
	return name
}

// programName returns the name of the main package or, if it says nothing, of the file.
func programName() string {
	name, _ := fieldmanager.OfMain()
	if len(os.Args) == 0 {
		return cmp.Or(name, "pintle")
	}
	return cmp.Or(name, filepath.Base(os.Args[0]))
}
