package kube

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"

	"github.com/pintle-go/pintle/internal/fieldmanager"
)

// FieldManager returns the field manager of the client's writes: that of its [Config], or
// the name by the main package of the program. It returns an error if there is none. Then
// writes fail with that error.
func (c *Client) FieldManager() (string, error) {
	return c.fieldManager, c.noManager
}

// checkManager returns an error if a request is a write whose field manager has no name.
func (h *handle) checkManager(method string) error {
	writes := method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
	if !writes || h.write.FieldManager != "" {
		return nil
	}
	return h.client.noManager
}

// managerName returns the field manager of the handle's writes, or nothing if
// checkManager refuses them.
func (h *handle) managerName() string {
	return cmp.Or(h.write.FieldManager, h.client.fieldManager)
}

// programName returns the name of the main package or, if it says nothing, of the file.
func programName() string {
	name, _ := fieldmanager.Default()
	if len(os.Args) == 0 {
		return cmp.Or(name, "pintle")
	}
	return cmp.Or(name, filepath.Base(os.Args[0]))
}
