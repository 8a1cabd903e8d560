"""Calls methods with grpcio or hyper-h2: client.py LIBRARY ADDRESS. The standard input has the calls and the settings as JSON.

It prints a line "PATH STATUS" for each call.
"""

import json
import socket
import sys

library, address = sys.argv[1:]
job = json.load(sys.stdin)
calls = [(path, bytes.fromhex(message)) for path, message in job["calls"]]
settings = {name: int(value) for name, value in job["settings"].items()}


def with_grpcio():
    import grpc

    names = {
        "header_table_size": "grpc.http2.hpack_table_size.decoder",
        "initial_window_size": "grpc.http2.lookahead_bytes",
        "max_frame_size": "grpc.http2.max_frame_size",
        "max_header_list_size": "grpc.max_metadata_size",
    }
    options = [(names[name], value) for name, value in settings.items()]
    with grpc.insecure_channel(address, options=options) as channel:
        for path, message in calls:
            for _ in range(3):
                try:
                    channel.unary_unary(path)(message, timeout=10, metadata=(("tracestate", "x" * 3000),))
                    status = 0
                except grpc.RpcError as error:
                    status = f"{error.code()} {error.details()}"
            print(path, status)


def with_h2():
    import h2.config
    import h2.connection
    import h2.events
    import h2.exceptions
    import h2.settings

    host, port = address.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), timeout=10)
    conn = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
    codes = {name.lower(): code for name, code in h2.settings.SettingCodes.__members__.items()}
    initial = {codes[name]: value for name, value in settings.items()}
    conn.local_settings = h2.settings.Settings(client=True, initial_values={**dict(conn.local_settings), **initial})
    conn.decoder.max_allowed_table_size = conn.local_settings.header_table_size
    conn.initiate_connection()
    window = settings.get("initial_window_size", 65535)

    def call(stream, path, message):
        conn.send_headers(
            stream,
            [
                (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", address),
                ("content-type", "application/grpc"), ("te", "trailers"), ("tracestate", "x" * 33000),
            ],
        )
        conn.send_data(stream, b"\0" + len(message).to_bytes(4, "big") + message, end_stream=True)
        status = "none"
        while True:
            sock.sendall(conn.data_to_send())
            received = sock.recv(65536)
            if not received:
                return "the connection was closed"
            for event in conn.receive_data(received):
                if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                    status = dict(event.headers).get("grpc-status", status)
                    if window < 1000 and isinstance(event, h2.events.ResponseReceived):
                        try:
                            conn.increment_flow_control_window(100000, stream)
                        except h2.exceptions.StreamClosedError:
                            pass  # the whole response has arrived
                elif isinstance(event, h2.events.DataReceived):
                    conn.acknowledge_received_data(event.flow_controlled_length, stream)
                elif isinstance(event, h2.events.StreamReset):
                    return f"reset {event.error_code}"
                elif isinstance(event, h2.events.ConnectionTerminated):
                    return f"GOAWAY {event.error_code}"
                elif isinstance(event, h2.events.StreamEnded):
                    sock.sendall(conn.data_to_send())
                    return status

    stream = 1
    for path, message in calls:
        for turn in range(3):
            if turn == 1:  # in the middle of the connection
                size = min(100, settings.get("header_table_size", 4096))
                conn.update_settings({h2.settings.SettingCodes.HEADER_TABLE_SIZE: size, h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: 1})
            status = call(stream, path, message)
            stream += 2
        print(path, status)
    conn.close_connection()
    sock.sendall(conn.data_to_send())
    sock.close()


{"grpcio": with_grpcio, "h2": with_h2}[library]()
