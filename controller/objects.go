package controller

import "github.com/pintle-go/pintle/kube"

// Objects returns the handle of the objects that the source tells changes of, of
// which package manifest makes rights; false if it is not of objects.
func (s Source) Objects() (kube.AnyHandle, bool) { return s.objects, s.objects != nil }
