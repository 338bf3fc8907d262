package pod

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	streamhttp "k8s.io/streaming/pkg/httpstream"
)

// fallback tries a websocket and, if the server or a proxy did not make one,
// SPDY. Who may create pods/exec but not get it is refused the former only.
func fallback(webSocket, spdy func() error) error {
	err := webSocket()
	var refused *streamhttp.UpgradeFailureError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		err = refused.Cause
	case !streamhttp.IsHTTPSProxyError(err):
		return err
	}
	if apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) {
		return err
	}
	again := spdy()
	var status apierrors.APIStatus
	if again != nil && errors.As(err, &status) && !isExit(again) {
		// The server says the same to both, but of SPDY client-go keeps the
		// text alone.
		return err
	}
	return again
}
