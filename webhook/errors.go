package webhook

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Invalid returns an error of [Checks] for one field, such as "spec.shelves[2].width". Several are joined
// with [errors.Join]. The user sees them as those of the API server: the status is 422 Invalid, and kubectl
// prints each by its field. So do errors and lists of package field, such as field.Required. Its
// counterpart is field.Invalid of apimachinery.
//
// Any other error refuses with its text and 403 Forbidden, unless it is one of package apierrors, which
// passes as it is.
func Invalid(path string, value any, text string) error {
	return &field.Error{Type: field.ErrorTypeInvalid, Field: path, BadValue: value, Detail: text}
}

// refusal returns the status for the error of a function.
func refusal(err error, kind schema.GroupKind, name string) *metav1.Status {
	fields, others := split(err)
	status := apierrors.APIStatus(nil)
	switch {
	case len(fields) > 0:
		is := apierrors.NewInvalid(kind, name, fields).Status()
		if others != nil {
			is.Message += "; " + others.Error()
		}
		return &is
	case errors.As(err, &status):
		is := status.Status()
		is.Status = metav1.StatusFailure
		if is.Code < http.StatusBadRequest {
			is.Code = http.StatusBadRequest // as the API server would correct it
		}
		if is.Message == "" {
			is.Message = err.Error()
		}
		return &is
	}
	return failure(http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
}

func failure(code int32, reason metav1.StatusReason, text string) *metav1.Status {
	return &metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: text}
}

// split takes joined errors apart into those of fields and others.
func split(err error) (fields field.ErrorList, others error) {
	var parts []error
	switch joined := err.(type) { //nolint:errorlint // the errors inside are taken apart below
	case *field.Error:
		return field.ErrorList{joined}, nil
	case interface{ Unwrap() []error }:
		parts = joined.Unwrap()
	case interface{ Errors() []error }: // the aggregate of a field.ErrorList
		parts = joined.Errors()
	case interface{ Unwrap() error }:
		if fields, others = split(joined.Unwrap()); len(fields) > 0 {
			return fields, others // the text around it has no place among the causes
		}
		return nil, err
	default:
		return nil, err
	}
	for _, part := range parts {
		f, o := split(part)
		fields, others = append(fields, f...), errors.Join(others, o)
	}
	if len(fields) == 0 {
		return nil, err
	}
	return fields, others
}

// failed is the error of a call that gives no decision: the hook has failed, not the request.
type failed struct {
	code   int // of HTTP
	reason metav1.StatusReason
	err    error
}

func (f *failed) Error() string { return f.err.Error() }
func (f *failed) Unwrap() error { return f.err }

func bad(format string, args ...any) *failed {
	return &failed{http.StatusBadRequest, metav1.StatusReasonBadRequest, fmt.Errorf(format, args...)}
}

func broken(format string, args ...any) *failed {
	return &failed{http.StatusInternalServerError, metav1.StatusReasonInternalError, fmt.Errorf(format, args...)}
}
