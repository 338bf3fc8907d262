// Package operators holds what the operators ship beside their programs.
package operators

import "embed"

// Files are the definitions of the operators' kinds, samples of them, and what
// it takes to run foo in a cluster.
//
//go:embed book/*.yaml foo/*.yaml foo/deploy/*.yaml echo/*.yaml letter/*.yaml greeter/*.yaml
var Files embed.FS
