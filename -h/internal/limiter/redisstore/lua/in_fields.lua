-- The algorithm below counts in fields of blocks.
local decode_counts, encode_counts = decode_field, encode_field
