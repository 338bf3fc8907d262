// Package apitest has parts of the API servers that tests play by an http.RoundTripper.
package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
)

// Respond answers a request with an object as JSON.
func Respond(r *http.Request, code int, o any) *http.Response {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return Stream(r, code, io.NopCloser(bytes.NewReader(data)))
}

// Stream answers a request with JSON that is still to be written, as of a watch.
func Stream(r *http.Request, code int, body io.ReadCloser) *http.Response {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: body, Request: r}
}

// Refuse answers a request with an error, as an API server sends it.
func Refuse(r *http.Request, err *apierrors.StatusError) *http.Response {
	status := err.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	return Respond(r, int(status.Code), &status)
}

// Decode decodes an object that package kube has encoded as protobuf. Other bodies make it
// panic.
func Decode(body []byte, into interface{ Unmarshal([]byte) error }) {
	raw, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		panic(fmt.Sprintf("not protobuf: %q", body))
	}
	var envelope runtime.Unknown
	if err := envelope.Unmarshal(raw); err != nil {
		panic(err)
	}
	if err := into.Unmarshal(envelope.Raw); err != nil {
		panic(err)
	}
}
