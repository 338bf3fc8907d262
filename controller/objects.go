package controller

import "github.com/pintle-go/pintle/kube"

// Objects returns the handle of the objects that the source watches. Package manifest
// derives rights from it. The result is false if the source is not of objects.
func (s Source) Objects() (kube.AnyHandle, bool) { return s.objects, s.objects != nil }
