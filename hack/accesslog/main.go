// Accesslog writes an access log, for trying `weir replay`:
//
//	go run ./hack/accesslog >access.log
package main

import (
	"flag"
	"log"
	"os"
	"time"

	"github.com/weir-dev/weir/hack/accesslog/traffic"
)

func main() {
	o := traffic.Options{}
	flag.IntVar(&o.Lines, "lines", 100_000, "number of requests")
	flag.IntVar(&o.Clients, "clients", 5000, "number of clients")
	flag.BoolVar(&o.JSON, "json", false, "write lines of JSON, which have a host and a tenant, in place of the combined format of nginx")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of all random numbers")
	flag.DurationVar(&o.Length, "length", 24*time.Hour, "time from the first request to the last")
	flag.BoolVar(&o.Uniform, "uniform", false, "all clients send equally many requests")
	flag.Parse()
	if err := traffic.Write(os.Stdout, o); err != nil {
		log.Fatal(err)
	}
}
