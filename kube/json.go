package kube

import "encoding/json"

// encodeJSON encodes as every Go client does: what encoding/json makes of a
// type's tags is what its authors tested with.
func encodeJSON(v any) ([]byte, error) { return json.Marshal(v) }
