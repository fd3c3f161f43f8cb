// Command program makes the attempts of package hostile in the task that it is started in. Tests build and start it.
package main

import (
	"fmt"
	"os"

	"berth/e2e/hostile"
)

func main() {
	if err := hostile.Main(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
