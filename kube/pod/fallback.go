package pod

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	streamhttp "k8s.io/streaming/pkg/httpstream"
)

// fallback tries a websocket. If the server or a proxy did not make one, it tries SPDY. A
// user who may create pods/exec but not get it is refused only the websocket.
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
		// The server says the same to both, but client-go keeps only the text of the SPDY
		// answer.
		return err
	}
	return again
}
