// Package operators holds the files that the operators ship with their programs.
package operators

import "embed"

// Files are the definitions of the operators' kinds, samples of them, and the
// manifests to run foo in a cluster.
//
//go:embed book/*.yaml foo/*.yaml foo/deploy/*.yaml echo/*.yaml letter/*.yaml
//go:embed shop/*.yaml farm/*.yaml greeter/*.yaml neon/*.yaml
var Files embed.FS
