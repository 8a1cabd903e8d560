package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestWriteFile_ADeviceCanBeFull(t *testing.T) {
	path := "/dev/full"
	if os.Geteuid() == 0 { // code that replaces devices must not replace that of the machine
		path = filepath.Join(t.TempDir(), "full")
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, 1<<8|7); err != nil {
			t.Skip(err)
		}
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Skip("devices of this file system cannot be opened: ", err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteFile(path, text("all")); err == nil || err.Error() != path+" was not written: write "+path+": no space left on device" {
		t.Errorf("%v", err)
	}
}
