// Package functions owns the functions that expressions of job files may call. All but a few that read the author's
// machine are pure, and none can make a very large value out of a small one. Package jobspec imports it.
package functions
