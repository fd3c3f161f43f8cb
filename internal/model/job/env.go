package job

import "berth/internal/base/pattern"

var notInEnv = pattern.Of(`[^A-Za-z0-9_]`)

// EnvName is a label or a key as it stands in the name of an environment variable: whatever is neither an ASCII letter
// nor a digit is an underscore.
func EnvName(s string) string { return notInEnv().ReplaceAllString(s, "_") }
