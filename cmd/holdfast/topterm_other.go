//go:build !linux && !darwin

package main

import (
	"errors"
	"os"
)

// rawMode: there is no live view here; what there is is shown once.
func rawMode(*os.File) (restore func(), err error) { return nil, errors.ErrUnsupported }

func screenSize(*os.File) (width, height int) { return 80, 24 }

func sizeChanges() (<-chan os.Signal, func()) { return nil, func() {} }
