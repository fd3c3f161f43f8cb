package changes

// followed are the tables whose changes are remembered. What is in others nobody follows.
var followed = map[string]bool{
	"jobs":         true,
	"evals":        true,
	"allocs":       true,
	"deployments":  true,
	"nodes":        true,
	"node-pools":   true,
	"volumes":      true,
	"claims":       true,
	"plugins":      true,
	"acl-tokens":   true,
	"acl-policies": true,
	"acl-roles":    true,
}

// Followed tells tables whose changes are remembered.
func Followed(table string) bool { return followed[table] }
