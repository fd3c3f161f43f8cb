package device

import "strings"

// LeftOut are variables of a plugin's answer that a task does not get.
type LeftOut struct {
	Plugin    string
	Variables []string
}

// reserved are the beginnings of names of variables that are not a plugin's to give: with NOMAD_, CONSUL_ and VAULT_
// the task learns from Berth who it is and whom it may ask, and with LD_ what the loader puts into each of its
// programs.
var reserved = []string{"NOMAD_", "BERTH_", "CONSUL_", "VAULT_", "CSI_", "LD_"}

// Reserved reports whether a variable is not a plugin's to give: it decides which programs a task finds, what is loaded
// into them or run before them, or who the task is. A job that wants such a one sets it in env.
func Reserved(name string) bool {
	for _, prefix := range reserved {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	switch name {
	case "PATH", "HOME", "USER", "LOGNAME", "SHELL", "IFS", "ENV", "BASH_ENV", "GLIBC_TUNABLES", "GCONV_PATH":
		return true
	}
	return false
}
