package profile_test

import (
	"github.com/pintle-go/pintle/controller"
	"github.com/pintle-go/pintle/controller/profile"
)

// The port of an operator serves profiles. With Authorize, not everybody may read them.
func ExampleHandler() {
	_ = controller.Options{Address: ":8080", Profiles: profile.Handler(), Authorize: true}
}
